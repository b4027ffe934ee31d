"""The SPI link server: offers SPI slaves by name to programs on this machine, over TCP.

Such programs use the stand-in for `spidev`, or are `aisrv-host --device spi:B.D@HOST:PORT`. Any number of
them may open a slave; they take turns, a message at a time, as programs on one spidev node do. A peer that
breaks the protocol or stops within a frame is cut off. Protocol: `aisrv.protocol.spi_link`,
docs/guides/programs.md.
"""

import errno
import logging
from collections.abc import Mapping
from typing import Final

import trio

from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.protocol import spi_link
from aisrv.protocol.spi_link import (
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
)
from phy.spi.bus import LARGEST_MESSAGE, UNSTATED, SpiPort, SpiTransfer, Timing

logger = logging.getLogger(__name__)

FRAME_SECONDS: Final = 10.0
"""Time that a peer has for its first two frames, and for the rest of any frame that it has begun."""

RELEASE_SECONDS: Final = 1.0
"""Time for chip select to go high after a peer left it low, while the server itself is being cancelled."""

FASTEST_CLOCK_HZ: Final = 50_000_000
"""A clock period of 20 ns: "XCORE AI server: numbers and wire behavior", section SPI."""

_PIECE: Final = 64 * 1024


class SpiLinkServer(StreamServer):
    """Serves any number of slaves by name, such as `0.0`: bus and chip select."""

    PEER = "SPI peer"
    PROTOCOL_ERROR = SpiLinkError

    def __init__(self, slaves: Mapping[str, SpiPort]) -> None:
        super().__init__()
        self.slaves: Final = dict(slaves)
        self._greeting = frame(Slaves(tuple(self.slaves)))
        self._left_selected: dict[str, Connection] = {}

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        connection = Connection(stream)
        name = None
        with trio.move_on_after(FRAME_SECONDS) as patience:
            name = await self._greet(connection, peer)
        if patience.cancelled_caught:
            raise SpiLinkError(f"opened no slave within {FRAME_SECONDS:g} s")
        if name is None:
            return
        logger.info("SPI peer %s opened %s", peer, name)
        try:
            await self._serve_slave(connection, name)
        finally:
            if self._left_selected.get(name) is connection:
                del self._left_selected[name]
                with trio.move_on_after(RELEASE_SECONDS, shield=True):
                    await self.slaves[name].release()
            logger.info("SPI peer %s closed %s", peer, name)

    async def _greet(self, connection: "Connection", peer: str) -> str | None:
        """Exchange hello, list of slaves and open; return the slave's name, or None if the peer leaves."""
        body = await connection.receive(FrameKind.HELLO)
        if body is None:
            return None
        version = Hello.from_bytes(body).version
        await connection.send(self._greeting)
        if version != spi_link.VERSION:
            raise SpiLinkError(f"speaks version {version}, not {spi_link.VERSION}")
        while True:
            body = await connection.receive(FrameKind.OPEN)
            if body is None:
                return None
            name = Open.from_bytes(body).name
            if name in self.slaves:
                await connection.send(frame(Opened(0, FASTEST_CLOCK_HZ)))
                return name
            logger.warning("SPI peer %s asked for slave %r, which does not exist", peer, name)
            await connection.send(frame(Opened(errno.ENOENT)))

    async def _serve_slave(self, connection: "Connection", name: str) -> None:
        port = self.slaves[name]
        while True:
            body = await connection.receive(FrameKind.MESSAGE)
            if body is None:
                return
            transfers = _transfers(LinkMessage.from_bytes(body))
            if sum(len(each.mosi) for each in transfers) > LARGEST_MESSAGE:
                await connection.send(frame(Done(error=errno.EMSGSIZE)))
                continue
            if transfers and not transfers[-1].deselect:
                self._left_selected[name] = connection
            miso = await port.message(transfers)
            if transfers and transfers[-1].deselect:
                self._left_selected.pop(name, None)
            await connection.send(frame(Done(miso=b"".join(miso))))


class Connection:
    """Frames of one peer."""

    def __init__(self, stream: PeerStream) -> None:
        self._stream = stream
        self._received = bytearray()

    async def send(self, message: bytes) -> None:
        """Send a frame. Raises SpiLinkError if the peer does not take it in time."""
        with trio.move_on_after(FRAME_SECONDS) as patience:
            await self._stream.send_all(message)
        if patience.cancelled_caught:
            raise SpiLinkError(f"did not take an answer of {len(message)} bytes within {FRAME_SECONDS:g} s")

    async def receive(self, expected: FrameKind) -> bytes | None:
        """Return the body of the next frame, or None if the peer has left. No limit of time until it begins.

        Raises SpiLinkError for another frame, and for one that is not whole in time.
        """
        if not self._received and not await self._receive_more():
            return None
        if (body := self._take(expected)) is not None:
            return body
        with trio.move_on_after(FRAME_SECONDS):
            while await self._receive_more():
                if (body := self._take(expected)) is not None:
                    return body
            raise SpiLinkError(f"the stream ended within a frame, after {len(self._received)} bytes")
        raise SpiLinkError(f"was silent for {FRAME_SECONDS:g} s after {len(self._received)} bytes of a frame")

    def _take(self, expected: FrameKind) -> bytes | None:
        """Return the body of the frame if it is whole."""
        received = self._received
        if len(received) < spi_link.HEAD_SIZE:
            return None
        kind, size = spi_link.parse_head(received)
        if kind != expected:
            raise SpiLinkError(f"sent frame {kind} where {expected.name} ({expected}) was expected")
        end = spi_link.HEAD_SIZE + size
        if len(received) < end:
            return None
        body = bytes(received[spi_link.HEAD_SIZE : end])
        del received[:end]
        return body

    async def _receive_more(self) -> bool:
        piece = await self._stream.receive_some(_PIECE)
        self._received += piece
        return bool(piece)


def _transfers(message: LinkMessage) -> list[SpiTransfer]:
    return [SpiTransfer(each.mosi, each.deselect, each.clock_hz, _timing(each)) for each in message.transfers]


def _timing(transfer: LinkTransfer) -> Timing:
    stated = transfer[3:]
    return UNSTATED if stated == (None, None, None) else Timing(*stated)
