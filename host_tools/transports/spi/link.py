"""Host side of the SPI link: opens a slave of an SPI link server and clocks messages.

    with SpiLink.open("localhost:5000", "0.0") as link:
        miso = link.message([LinkTransfer(b"\\x01\\0\\0\\0\\0\\0\\0")])

Synchronous, standard library only. The server is not trusted: what it claims is bounded. Other people's
programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

from aisrv.protocol.spi_link import (
    HEAD_SIZE,
    VERSION,
    Done,
    FrameKind,
    Hello,
    LinkMessage,
    LinkTransfer,
    Open,
    Opened,
    Slaves,
    SpiLinkError,
    frame,
    parse_head,
)
from host_tools.errors import (
    DeviceGone,
    DeviceNotFound,
    HostError,
    TransferError,
    TransferTimeout,
    UnknownSlave,
)
from host_tools.transports.server_address import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

_Answer = TypeVar("_Answer")

CONNECT_SECONDS: Final = 10.0
"""Time that a server has to answer while a slave is opened."""

_EXAMPLE_PORT: Final = 5000


def list_slaves(address: str, timeout: float = CONNECT_SECONDS) -> tuple[str, ...]:
    """Return the names of the server's slaves; DeviceNotFound where none answers in time."""
    with SpiLink(address, timeout) as link:
        return link.slaves


class SpiLink:
    """A connection to a server; `slaves` are the names that it offers.

    A method that raises leaves the connection closed, but for an errno that the server answered: what would
    come next is not known.
    Calls must not overlap.
    """

    def __init__(self, address: str, timeout: float = CONNECT_SECONDS) -> None:
        """Connect and greet; DeviceNotFound, or BadAddressError."""
        self.address = address
        self._deadline: float | None = time.monotonic() + timeout
        try:
            self._socket = connect(address, timeout, _EXAMPLE_PORT)
        except OSError as error:
            raise DeviceNotFound(f"{address}: no SPI link server answers ({error})") from error
        greeting = self._ask_at_first(frame(Hello()), FrameKind.SLAVES, Slaves.from_bytes)
        if greeting.version != VERSION:
            self.close()
            raise DeviceNotFound(f"{address} speaks version {greeting.version}, not {VERSION}")
        self.slaves = greeting.names
        self.max_speed_hz = 0

    @classmethod
    def open(cls, address: str, name: str, timeout: float = CONNECT_SECONDS) -> SpiLink:
        """Connect and open a slave such as `0.0`; UnknownSlave where the server has none of that name."""
        link = cls(address, timeout)
        opened = link._ask_at_first(frame(Open(name)), FrameKind.OPENED, Opened.from_bytes)
        if opened.error:
            link.close()
            names = ", ".join(link.slaves) or "none"
            raise UnknownSlave(f"{address}: no SPI slave {name}; it has {names}")
        link.max_speed_hz = opened.max_speed_hz
        link._deadline = None
        link._socket.settimeout(None)
        return link

    @property
    def closed(self) -> bool:
        """Return whether the connection has ended."""
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        """Return the socket's file descriptor; -1 once closed."""
        return self._socket.fileno()

    def message(self, transfers: Sequence[LinkTransfer], timeout: float | None = None) -> bytes:
        """Clock transfers; what came on MISO, all of them joined.

        Raises TransferError, with the errno that the server answered if any, TransferTimeout past `timeout`
        seconds, or DeviceGone.
        """
        if timeout is not None:
            self._deadline = time.monotonic() + timeout
        elif self._deadline is not None:
            self._deadline = None
            self._socket.settimeout(None)
        done = self._ask(frame(LinkMessage(transfers)), FrameKind.DONE, Done.from_bytes)
        if done.error:
            size = sum(len(each.mosi) for each in transfers)
            raise TransferError(f"clocking {size} bytes: {os.strerror(done.error)}", status=-done.error)
        return done.miso

    def close(self) -> None:
        """End the connection; chip select goes high. Closing again does nothing."""
        self._socket.close()

    def __enter__(self) -> SpiLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask_at_first(
        self, question: bytes, expected: FrameKind, parse: Callable[[bytes], _Answer]
    ) -> _Answer:
        """Ask as `_ask` does; what answers nonsense, or nothing in time, is no SPI link server."""
        try:
            return self._ask(question, expected, parse)
        except HostError as error:
            raise DeviceNotFound(str(error)) from error

    def _ask(self, question: bytes, expected: FrameKind, parse: Callable[[bytes], _Answer]) -> _Answer:
        """Send a frame; read the answer to it."""
        try:
            self._bound()
            self._socket.sendall(question)
            received = self._receive(b"", HEAD_SIZE)
            kind, size = parse_head(received)
            if kind != expected:
                raise SpiLinkError(f"sent frame {kind} where {expected} was expected")
            body = self._receive(received[HEAD_SIZE:], size)
            if len(body) != size:
                raise SpiLinkError(f"sent {len(body) - size} bytes after its answer")
            return parse(body)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise TransferTimeout(f"{self.address}: no answer in time") from None
            if isinstance(error, OSError | EOFError):
                raise DeviceGone(f"{self.address}: the connection broke ({error})") from error
            if isinstance(error, SpiLinkError):
                raise TransferError(f"{self.address}: {error}") from error
            raise

    def _receive(self, received: bytes, size: int) -> bytes:
        """Receive `size` bytes, and what came along with them."""
        pieces, missing = [received], size - len(received)
        while missing > 0:
            self._bound()
            piece = self._socket.recv(max(missing, 8192))
            if not piece:
                raise EOFError("the server closed it")
            pieces.append(piece)
            missing -= len(piece)
        return pieces[1] if not received and len(pieces) == 2 else b"".join(pieces)

    def _bound(self) -> None:
        """Let the socket wait for what remains of the time, which a server that drips cannot stretch."""
        if self._deadline is not None:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
