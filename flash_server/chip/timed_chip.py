"""A flash chip in device time: a read takes what it does through the flash server, the rest the chip's own.

Source: "Device time and traces", section 2.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.mutex import Mutex
from aisrv.xcore.timed.runtime import TimedRuntime
from flash_server.chip.chip import FlashChip
from flash_server.chip.nor import READS
from flash_server.chip.part import FlashPart
from flash_server.chip.storage import Storage

ReadClocks = Callable[[int], int | Fraction]
"""Clocks of a core for a read of some bytes."""


class TimedChip(FlashChip):
    """`FlashChip` in device time."""

    def __init__(
        self,
        part: FlashPart,
        storage: Storage,
        runtime: TimedRuntime,
        read_clocks: ReadClocks,
        *,
        clock_hz: int,
        width: int,
    ) -> None:
        self._runtime: Final = runtime
        super().__init__(
            part, storage, clock_hz=clock_hz, width=width, pace=self._let_pass, now=self._seconds
        )
        self._timeline: Final = runtime.timeline
        self._read_clocks: Final = read_clocks
        self.clocks = 0
        """Clocks of a core of all reads, programs and erasures so far."""

    def _make_lock(self) -> Mutex:
        return Mutex(self._runtime, "flash chip")

    async def _clock(self, opcode: int, size: int) -> None:
        if opcode in READS.values():
            await self._take(-int(-self._read_clocks(size) // 1))
        else:
            await super()._clock(opcode, size)

    async def _let_pass(self, seconds: float) -> None:
        await self._take(self._timeline.clocks(Fraction(seconds) * TICKS_PER_SECOND))

    async def _take(self, clocks: int) -> None:
        self.clocks += clocks
        await self._timeline.wait_until(self._timeline.now() + clocks)

    def _seconds(self) -> float:
        timeline = self._timeline
        return timeline.tick_of(timeline.now()) / TICKS_PER_SECOND
