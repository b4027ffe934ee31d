"""Timers that count the 100 MHz reference clock: a tick is 10 ns of Trio's clock, live or virtual."""

from typing import TYPE_CHECKING, Final

import trio

from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

TICKS_PER_SECOND: Final = 100_000_000
RESOURCE_TYPE: Final = 1
_ROUNDING: Final = 0.05  # ticks: well above a float's error on a clock of some days, well below one tick


class Clock:
    """The reference clock of a node: whole ticks since the node started."""

    def __init__(self) -> None:
        self._origin = trio.current_time()

    def ticks(self) -> int:
        """Ticks since the node started; does not wrap."""
        return int((trio.current_time() - self._origin) * TICKS_PER_SECOND + _ROUNDING)

    def deadline(self, ticks: int) -> float:
        """Trio's time at which that tick begins: converted from the whole count, so that nothing drifts."""
        return self._origin + ticks / TICKS_PER_SECOND


def _signed(difference: int) -> int:
    return (difference + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class Timer:
    """One of the ten timers of a tile. Times are 32-bit and wrap: they compare within 21 s."""

    def __init__(self, tile: "Tile", number: int) -> None:
        self._tile = tile
        self._clock = tile.node.clock
        self.number: Final = number
        self.resource_id: Final = tile.resource_id(RESOURCE_TYPE, number)
        self._freed = False

    @property
    def name(self) -> str:
        """Name with resource id, as traps and reports give it."""
        return f"timer 0x{self.resource_id:08x}"

    def now(self) -> int:
        """Read the timer: 32 bits of 10 ns ticks (`t :> now`)."""
        self._check_usable()
        return self._clock.ticks() & 0xFFFFFFFF

    def after(self, time: int) -> "TimerAfter":
        """Make the event `t when timerafter(time) :> void`, for a select or `wait`."""
        self._check_usable()
        return TimerAfter(self, self._clock, time)

    async def wait_after(self, time: int) -> int:
        """Wait until the timer is after `time` and read it; a checkpoint even where it is already."""
        await trio.sleep_until(self.after(time).deadline)
        return self.now()

    def free(self) -> None:
        """Give the timer back to its tile."""
        self._check_usable()
        self._freed = True
        self._tile.release_timer(self)

    def _check_usable(self) -> None:
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"use of {self.name}, which was freed")


class TimerAfter:
    """The event that a timer has passed a time: strictly, `(int32)(now - time) > 0`."""

    def __init__(self, timer: Timer, clock: Clock, time: int) -> None:
        self.timer: Final = timer
        now = clock.ticks()
        self._clock = clock
        self._due = now + _signed(time - now & 0xFFFFFFFF) + 1
        self.deadline: Final = clock.deadline(self._due)

    @property
    def name(self) -> str:
        """Name of the timer."""
        return self.timer.name

    @property
    def ready(self) -> bool:
        """Whether that time has passed."""
        return self._clock.ticks() >= self._due
