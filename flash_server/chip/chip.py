"""A flash chip in time: the firmware's verbs, and the wire that programmers drive, on one state machine.

Without a pace nothing takes time. With one, the bus takes the clocks of each command at its clock rate, and
a program or an erase keeps the chip busy for the part's typical time, as bit WIP of the status tells.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import trio

from aisrv.values.activity import Activity
from aisrv.xcore.mutex import Mutex
from flash_server.chip.nor import COMMANDS, PROGRAMS, READS, Nor, StatusBit, Watcher
from flash_server.chip.part import CLOCK_HZ, SECTOR_ERASE, WIDTH, FlashPart
from flash_server.chip.storage import Storage
from flash_server.errors import PartError, ProtectedError

_READ_STATUS, _READ_IDENTIFICATION, _WRITE_ENABLE = 0x05, 0x9F, 0x06

Pace = Callable[[float], Awaitable[None]]
"""Lets seconds pass."""


class FlashChip:
    """A chip on its bus; one transaction at a time.

    The verbs read on `width` lines, 1, 2 or 4; they program on 4, or on 1. `pace` lets seconds pass, and
    `now` tells them; `trio.sleep` makes it device time. Without a pace each verb takes one checkpoint. Raises
    PartError for a clock that the part does not reach, and for another width. Addresses and sizes are in
    bytes.
    """

    def __init__(
        self,
        part: FlashPart,
        storage: Storage,
        *,
        clock_hz: int = CLOCK_HZ,
        width: int = WIDTH,
        pace: Pace | None = None,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        if not 0 < clock_hz <= part.largest_clock_hz:
            raise PartError(f"{part.name}: a clock of {clock_hz} Hz; it reaches {part.largest_clock_hz}")
        if width not in READS:
            raise PartError(f"{part.name}: {width} lines; data cross on {', '.join(map(str, READS))}")
        self._read_opcode, self._program_opcode = READS[width], PROGRAMS[width]
        self.part: Final = part
        self.clock_hz: Final = clock_hz
        self.nor: Final = Nor(part, storage)
        self._pace = pace
        self._now = now
        self._busy_until = 0.0
        self._operations = 0
        self._bus: Final = self._make_lock()
        self.activity: Final = Activity()
        """Reads, programs and erasures, each from when the chip is free for it to its end."""

    def _make_lock(self) -> trio.Lock | Mutex:
        """Make what holds the chip's wires for one user at a time."""
        return trio.Lock()

    # The firmware's verbs. Each waits until the chip is idle. Cancelled, it was done whole or not at all.

    async def read(self, address: int, size: int) -> bytes:
        """Read bytes by 4READ, 2READ or FAST_READ. Raises PartError outside of the chip, StorageError."""
        self.part.check_range(address, size)
        await self._claim()
        try:
            with self.activity.of("read", size):
                await self._clock(self._read_opcode, size)
            return self.nor.read(address, size)
        finally:
            self._bus.release()

    async def write_enable(self) -> None:
        """Let the next program or erase through."""
        await self._claim()
        try:
            await self._clock(_WRITE_ENABLE, 0)
            self.nor.execute(bytes((_WRITE_ENABLE,)))
        finally:
            self._bus.release()

    async def program_page(self, address: int, data: bytes) -> None:
        """Clear bits of one page by 4PP or PP, and wait until it is done; past its end, go on at its start.

        Raises PartError for an unknown address, ProtectedError if the chip refuses. `data` is at most a page.
        """
        self.part.check_range(address, 1)
        with await self._claimed("program", len(data)):
            try:
                await self._clock(self._program_opcode, len(data))
                self._check_change(address, 1, "program")
                self.nor.program(address, data)
                self._begin()
            finally:
                self._bus.release()
            await self._wait_idle()

    async def erase_sector(self, address: int) -> None:
        """Set all bits of the sector that holds the address, and wait. Raises PartError, ProtectedError."""
        self.part.check_range(address, 1)
        sector = self.part.erases[0]
        address -= address % sector.size
        with await self._claimed("erase", sector.size):
            try:
                await self._clock(SECTOR_ERASE, 0)
                self._check_change(address, sector.size, "erase")
                self.nor.erase(sector, address)
                self._begin()
            finally:
                self._bus.release()
            await self._wait_idle()

    async def read_status(self) -> StatusBit:
        """Read the status register, at any time."""
        async with self._bus:
            await self._clock(_READ_STATUS, 1)
            self._settle()
            return StatusBit(self.nor.status_byte)

    async def read_id(self) -> bytes:
        """Read manufacturer, memory type and density: three bytes."""
        await self._claim()
        try:
            await self._clock(_READ_IDENTIFICATION, 3)
            return self.part.identification
        finally:
            self._bus.release()

    def watch(self, changed: Watcher) -> Callable[[], None]:
        """Call `changed(address, data)` after each change, whoever makes it; the result ends that."""
        watchers = self.nor.watchers
        watchers.append(changed)
        return partial(watchers.remove, changed)

    # The wire.

    async def transact(self, out: bytes, read: int, *, clock_hz: int | None = None) -> bytes:
        """Clock `out` on MOSI, then `read` bytes on MISO, within one chip select; return the latter.

        As on the part, a command that is unknown or ill-timed is ignored and reads as 0xFF. A program or an
        erase goes on after this returns. Raises StorageError. `clock_hz` None is the clock of the bus.
        """
        async with self._bus:
            if self._pace is not None:
                await self._pace(_clocks(out, read) / (clock_hz or self.clock_hz))
            self._settle()
            was_idle = self.nor.operation is None
            answer = self.nor.execute(out, read)
            if was_idle:
                self._begin()
            return answer

    async def _clock(self, opcode: int, size: int) -> None:
        if self._pace is not None:
            await self._pace(COMMANDS[opcode].clocks(size) / self.clock_hz)

    def _check_change(self, address: int, size: int, what: str) -> None:
        refusal = self.nor.refusal(address, size)
        if refusal is not None:
            raise ProtectedError(f"{what} at 0x{address:06X} of {self.part.name}: {refusal}")

    def _begin(self) -> None:
        """Start the time of an operation; without a pace it is over."""
        if self.nor.operation is None:
            return
        if self._pace is None:
            self.nor.finish()
        else:
            self._operations += 1
            self._busy_until = self._now() + self.nor.operation

    def _settle(self) -> None:
        if self.nor.operation is not None and self._now() >= self._busy_until:
            self.nor.finish()

    async def _wait_idle(self) -> None:
        while self.nor.operation is not None and self._pace is not None:
            number = self._operations
            await self._pace(max(0.0, self._busy_until - self._now()))
            if number == self._operations and self.nor.operation is not None:
                self.nor.finish()  # whatever `now` says: the pace has let the time pass

    async def _claimed(self, name: str, size: int) -> AbstractContextManager[None]:
        """Claim the chip, and tell its observers what is done within a block."""
        await self._claim()
        return self.activity.of(name, size)

    async def _claim(self) -> None:
        while True:
            await self._bus.acquire()
            self._settle()
            if self.nor.operation is None:
                self.nor.wake()
                return
            self._bus.release()
            await self._wait_idle()


def _clocks(out: bytes, read: int) -> int:
    """Return the clocks of a transaction; of an unknown command, 8 a byte."""
    command = COMMANDS.get(out[0]) if out else None
    if command is None:
        return 8 * (len(out) + read)
    return command.clocks(max(0, len(out) + read - command.header_size))
