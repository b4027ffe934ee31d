"""A transaction: what the slave does between chip select low and high, byte by byte. No I/O.

The first byte is the command. A read answers from byte 3 on, after two dummy bytes; a write or a bare command
acts when chip select goes high. Source: "XCORE AI server: numbers and wire behavior", section SPI.
"""

from typing import Final, Protocol

from aisrv.protocol.commands import Command, Spi, Status, commands_of
from phy.spi.shared_memory import BLOCK_SIZE, SharedMemory

DUMMY_BYTES: Final = 2
"""Between the command and the data of a read: time for the slave to fetch them."""
FIRST_DATA: Final = 1 + DUMMY_BYTES

NO_EFFECT: Final = frozenset((*commands_of(Spi.SILENT), 0xAA, 0xAB))
"""HELLO also as a slave sees it that comes in one bit late, with either next bit."""

_READS: Final = commands_of(Spi.READ)
_ACTIONS: Final = commands_of(Spi.BLOCKS, Spi.BARE)
"""What the buffer runs."""


class _Role(Protocol):
    """Behavior of a transaction after its command."""

    def answer(self, clocked: int, count: int) -> bytes:
        """Return the bytes that go out next, whatever comes in with them."""

    def shift(self, clocked: int, mosi: bytes) -> bytes:
        """Clock bytes after the `clocked` ones before, the command included; return as many."""

    def deselect(self) -> int | None:
        """End; return the command if the buffer has to carry it out."""


class _Silent(_Role):
    """Nothing happens."""

    def answer(self, _clocked: int, count: int) -> bytes:
        return bytes(count)

    def shift(self, _clocked: int, mosi: bytes) -> bytes:
        return bytes(len(mosi))

    def deselect(self) -> None:
        return None


_SILENT: Final = _Silent()


class _Read(_Role):
    """Answers what the memory has when the first data byte goes out, then zeros."""

    def __init__(self, command: int, memory: SharedMemory) -> None:
        self._command = command
        self._memory = memory
        self._data: bytes | memoryview | None = None

    def answer(self, clocked: int, count: int) -> bytes:
        start, end = clocked - FIRST_DATA, clocked + count - FIRST_DATA
        if end <= 0:
            return bytes(count)
        if self._data is None:
            self._data = self._memory.read(self._command)
        return (bytes(max(0, -start)) + self._data[max(0, start) : end]).ljust(count, b"\0")

    def shift(self, clocked: int, mosi: bytes) -> bytes:
        return self.answer(clocked, len(mosi))

    def deselect(self) -> None:
        return None


class _Write(_Role):
    """Keeps a block of data, and hands it to the buffer at the end."""

    def __init__(self, command: int, memory: SharedMemory) -> None:
        self._command = command
        self._memory = memory
        self._data = bytearray()
        self._length = 0

    def answer(self, _clocked: int, count: int) -> bytes:
        return bytes(count)

    def shift(self, clocked: int, mosi: bytes) -> bytes:
        data = memoryview(mosi)[0 if clocked else 1 :]
        self._length += len(data)
        self._data += data[: BLOCK_SIZE - len(self._data)]
        return bytes(len(mosi))

    def deselect(self) -> int:
        self._memory.leave_block(bytes(self._data), self._length)
        return self._command


class SpiTransaction:
    """One transaction, which begins with chip select going low."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._clocked = 0
        self._role: _Role = _SILENT

    def shift(self, mosi: bytes) -> bytes:
        """Clock bytes in; return as many that went out on MISO."""
        if not mosi:
            return b""
        if not self._clocked:
            self._role = self._begin(mosi[0])
        miso = self._role.shift(self._clocked, mosi)
        self._clocked += len(mosi)
        return miso

    def next_out(self) -> int:
        """Return the byte on MISO while the next one comes in. Of a read it is final: it goes out."""
        return self._role.answer(self._clocked, 1)[0]

    def deselect(self) -> int | None:
        """Let chip select go high; return the command if the buffer has to carry it out."""
        return self._role.deselect()

    def _begin(self, command: int) -> _Role:
        if command in NO_EFFECT:
            return _SILENT
        busy = Status.BUSY in self._memory.status
        if command in _READS and (not busy or command == Command.GET_STATUS):
            return _Read(command, self._memory)
        if command in _ACTIONS and not busy:
            return _Write(command, self._memory)
        reason = "the device is busy" if busy else "SPI has no such command"
        self._memory.refuse(f"command 0x{command:02x} refused: {reason}")
        self._memory.status |= Status.ERROR_BAD_CMD
        return _SILENT
