"""Timers, which read the reference clock, and the events that they raise."""

from collections.abc import Callable
from typing import Final

import trio

from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traps import Trap, TrapKind

RESOURCE_TYPE: Final = 1


def _signed(difference: int) -> int:
    return (difference + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class Timer:
    """One of the ten timers of a tile. Times are 32-bit and wrap: they compare within 21 s."""

    def __init__(self, runtime: Runtime, tile: int, number: int, release: Callable[[int], None]) -> None:
        """Create a timer; `release` takes its number back when it is freed."""
        self.runtime: Final = runtime
        self.number: Final = number
        self.resource_id: Final = runtime.resource_id(tile, RESOURCE_TYPE, number)
        self.name: Final = f"timer 0x{self.resource_id:08x}"
        """Name with resource id, as traps and reports give it."""
        self._release = release
        self._freed = False

    def now(self) -> int:
        """Read the timer: 32 bits of 10 ns ticks (`t :> now`)."""
        self._check_usable()
        return self.runtime.clock.ticks() & 0xFFFFFFFF

    def after(self, time: int) -> "TimerAfter":
        """Return the event `t when timerafter(time) :> void`, for a select or `wait`."""
        self._check_usable()
        return TimerAfter(self, time)

    async def wait_after(self, time: int) -> int:
        """Wait until the timer is after `time` and read it; a checkpoint even where it is already."""
        await trio.sleep_until(self.after(time).deadline)
        return self.now()

    def free(self) -> None:
        """Give the timer back to its tile."""
        self._check_usable()
        self._freed = True
        self._release(self.number)

    def _check_usable(self) -> None:
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"use of {self.name}, which was freed")


class TimerAfter:
    """The event that a timer has passed a time: strictly, `(int32)(now - time) > 0`."""

    def __init__(self, timer: Timer, time: int) -> None:
        self.timer: Final = timer
        self.runtime: Final = timer.runtime
        self.name: Final = timer.name
        self._clock = timer.runtime.clock
        now = self._clock.ticks()
        self._due = now + _signed(time - now & 0xFFFFFFFF) + 1
        self.deadline: Final = self._clock.deadline(self._due)

    @property
    def ready(self) -> bool:
        """Whether that time has passed."""
        return self._clock.ticks() >= self._due
