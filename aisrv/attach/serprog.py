"""The serprog server: programmers such as flashrom reach the flash chip's wire over TCP.

`flashrom -p serprog:ip=HOST:PORT` is such a programmer. It has the bus from its first byte for as long as it
is connected, since its commands belong together: a second one is turned away. Source: flashrom, "Serial
Flasher Protocol Specification - version 1".
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from aisrv.listeners.http import describe_unexpected
from aisrv.listeners.peer_stream import PeerError, PeerStream
from aisrv.listeners.stream_server import StreamServer
from flash_server.chip.chip import FlashChip
from flash_server.chip.serprog import (
    ENDLESS_BUFFER,
    NAME_SIZE,
    PARAMETER_SIZES,
    VERSION,
    BusType,
    SerprogCommand,
    SerprogReply,
    SpiOperation,
    pack_command_map,
)
from flash_server.errors import FlashError

logger = logging.getLogger(__name__)

NAME: Final = b"aisrv"

LARGEST_SEND: Final = 4096
"""Bytes that one operation may send: a page and its address take 260."""

LARGEST_READ: Final = 65536
"""Bytes that one operation may read."""

HANDOVER_SECONDS: Final = 1.0
"""Time that a programmer waits for the previous one to leave."""

PATIENCE_SECONDS: Final = 30.0
"""Time that a programmer has to go on with a command it has begun."""

_RECEIVE_SIZE: Final = 65536
_ACK: Final = bytes((SerprogReply.ACK,))
_NAK: Final = bytes((SerprogReply.NAK,))


class SerprogError(Exception):
    """A programmer that leaves within a command, or sends an unknown one."""


class SerprogServer(StreamServer):
    """Serves one chip to one programmer at a time."""

    PEER = "programmer"
    PROTOCOL_ERROR = SerprogError

    def __init__(self, chip: FlashChip, released: Callable[[], Awaitable[None]] | None = None) -> None:
        """Serve a chip; `released` is called when a programmer has left, as the bytes may be others now."""
        super().__init__()
        self.chip: Final = chip
        self._released = released
        self._programmer: str | None = None
        self._turn = trio.Lock()

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        session = _Session(self.chip, stream)
        if not await session.begin():
            return
        with trio.move_on_after(HANDOVER_SECONDS) as handover:
            await self._turn.acquire()
        if handover.cancelled_caught:
            logger.warning("programmer %s refused: %s is using the flash", peer, self._programmer)
            return
        self._programmer = peer
        try:
            try:
                await session.run()
            except (SerprogError, PeerError, trio.BrokenResourceError, OSError):
                await self._read_again()  # what it has written before its connection broke counts
                raise
            await self._read_again()
        finally:
            self._turn.release()

    async def _read_again(self) -> None:
        if self._released is not None:
            await self._released()


class _Session:
    """One connected programmer."""

    def __init__(self, chip: FlashChip, stream: PeerStream) -> None:
        self._chip = chip
        self._stream = stream
        self._received = bytearray()
        self._clock_hz = chip.clock_hz

    async def begin(self) -> bool:
        """Wait for the first bytes; False if none come: a browser connects to where a page may lead."""
        return await self._receive()

    async def run(self) -> None:
        """Answer commands until the programmer leaves.

        Raises SerprogError if it leaves within a command, and for a byte that is not a command of the table
        that programmers are told: what follows it may be anything, such as a page's choice.
        """
        while self._received or await self._receive():
            number = self._received[0]
            if number not in _HANDLERS:
                raise SerprogError(describe_unexpected(bytes(self._received)))
            del self._received[0]
            await self._stream.send_all(await self._answer(number))

    async def _answer(self, number: int) -> bytes:
        handler = _HANDLERS[number]
        parameters = await self._take(PARAMETER_SIZES.get(SerprogCommand(number), 0))
        return await handler(self, parameters)

    async def _receive(self) -> bool:
        data = await self._stream.receive_some(_RECEIVE_SIZE)
        self._received += data
        return bool(data)

    async def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            with trio.move_on_after(PATIENCE_SECONDS) as patience:
                if not await self._receive():
                    raise SerprogError(f"the stream ended after {len(self._received)} of {size} bytes")
            if patience.cancelled_caught:
                raise SerprogError(f"the rest of a command did not come within {PATIENCE_SECONDS:g} s")
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    async def _operate(self, parameters: bytes) -> bytes:
        operation = SpiOperation.from_bytes(parameters)
        if operation.send > LARGEST_SEND or operation.read > LARGEST_READ:
            logger.warning("serprog operation of %d and %d bytes refused", operation.send, operation.read)
            left = operation.send
            while left:  # they come all the same
                left -= len(await self._take(min(left, LARGEST_SEND)))
            return _NAK
        out = await self._take(operation.send)
        try:
            return _ACK + await self._chip.transact(out, operation.read, clock_hz=self._clock_hz)
        except FlashError as error:
            logger.error("flash: %s", error)
            return _NAK

    async def _set_bus(self, parameters: bytes) -> bytes:
        return _ACK if parameters[0] & BusType.SPI else _NAK

    async def _set_clock(self, parameters: bytes) -> bytes:
        wanted = int.from_bytes(parameters, "little")
        if not wanted:
            return _NAK
        self._clock_hz = min(wanted, self._chip.part.largest_clock_hz)
        return _ACK + self._clock_hz.to_bytes(4, "little")


_Handler = Callable[[_Session, bytes], Awaitable[bytes]]


def _fixed(answer: bytes) -> _Handler:
    async def handler(_session: _Session, _parameters: bytes) -> bytes:
        return answer

    return handler


_HANDLERS: Final[Mapping[int, _Handler]] = {
    SerprogCommand.NOP: _fixed(_ACK),
    SerprogCommand.Q_IFACE: _fixed(_ACK + VERSION.to_bytes(2, "little")),
    SerprogCommand.Q_CMDMAP: _fixed(_ACK + pack_command_map()),
    SerprogCommand.Q_PGMNAME: _fixed(_ACK + NAME.ljust(NAME_SIZE, b"\0")),
    SerprogCommand.Q_SERBUF: _fixed(_ACK + ENDLESS_BUFFER.to_bytes(2, "little")),
    SerprogCommand.Q_BUSTYPE: _fixed(_ACK + bytes((BusType.SPI,))),
    SerprogCommand.Q_WRNMAXLEN: _fixed(_ACK + LARGEST_SEND.to_bytes(3, "little")),
    SerprogCommand.SYNCNOP: _fixed(_NAK + _ACK),
    SerprogCommand.Q_RDNMAXLEN: _fixed(_ACK + LARGEST_READ.to_bytes(3, "little")),
    SerprogCommand.S_BUSTYPE: _Session._set_bus,
    SerprogCommand.O_SPIOP: _Session._operate,
    SerprogCommand.S_SPI_FREQ: _Session._set_clock,
}
