"""An AI server's SPI port in memory, as the tests' stand-in for hardware: transactions in, transactions out.

Written from "XCORE AI server: numbers and wire behavior", section SPI, alone. The engine behind it is that
of the USB stand-in, `tests.support.benches.memory_device`.
"""

import struct
from dataclasses import dataclass, field

from host_tools.transports.spi.transport import SpiTransport
from host_tools.transports.transport import Buffer
from tests.support.benches.memory_device import BAD_CMD, Engine, Refused

BUSY = 1
BLOCKWISE = (0x86, 0x87, 0x83)
BARE = (0x84, 0x8C)


@dataclass
class MemorySlave(SpiTransport):
    """`busy` is for how many readings of the status the port is BUSY after each write."""

    engine: Engine = field(default_factory=Engine)
    busy: int = 1
    busy_now: int = 0
    status: int = 0
    collecting: int | None = None
    data: bytes = b""
    output: bytes = b""
    timings: bytes = b""
    seen: list[bytes] = field(default_factory=list)
    """Every transaction but the readings of the status."""
    polls: int = 0
    fails_after: int | None = None
    closed: int = 0

    def transact(self, mosi: Buffer, timeout: float | None) -> bytes:
        mosi = bytes(mosi)
        if self.fails_after is not None:
            if self.fails_after == 0:
                self.fails_after = None
                raise KeyboardInterrupt
            self.fails_after -= 1
        if mosi[:1] == b"\x01":
            self.polls += 1
            return self._read(mosi, self._status_word())
        self.seen.append(mosi)
        return self._read(mosi, self._answer(mosi[0], mosi[1:]))

    def close(self) -> None:
        self.closed += 1

    def _read(self, mosi: bytes, data: bytes) -> bytes:
        return (bytes(3) + data).ljust(len(mosi), b"\0")[: len(mosi)]

    def _status_word(self) -> bytes:
        word = self.status | (BUSY if self.busy_now else 0)
        if self.busy_now:
            self.busy_now -= 1
        else:
            self.status = 0
        return struct.pack("<I", word)

    def _answer(self, command: int, data: bytes) -> bytes:
        if command == 0x55:
            return b""
        if self.busy_now:
            self.status |= BAD_CMD
            return b""
        if command in BLOCKWISE:
            if self.collecting not in (None, command):
                self.data = b""
            self.collecting = command
            self.data += data
            self.busy_now = self.busy
            if len(data) < 512:
                whole, self.data, self.collecting = self.data, b"", None
                self._perform(command, whole)
        elif command in BARE:
            self.busy_now = self.busy
            self._perform(command, b"")
        elif command == 0x05:
            return self.output
        elif command == 0x09:
            return self.timings
        elif command in (0x08, 0x0F, 0x10):
            return self.engine.get(command, 0)
        else:
            self.status |= BAD_CMD
        return b""

    def _perform(self, command: int, data: bytes) -> None:
        try:
            self.engine.seen.append((command, 0, data))
            if command in self.engine.fails:
                raise Refused(self.engine.fails[command], "told to fail")
            self.engine.set(command, 0, data)
        except Refused as refused:
            self.status |= refused.status
            self.engine.log += refused.line.encode() + b"\n"
        else:
            if command == 0x84:
                self.output = self.engine.output_data[0]
                self.timings = struct.pack(f"<{len(self.engine.timings)}I", *self.engine.timings)
