"""Timers, which read the reference clock, and the events that they raise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from aisrv.xcore.core import User, check_tile, current_core, current_user
from aisrv.xcore.pool import Pool
from aisrv.xcore.report import name_of
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traced import traced_verb, traced_wait
from aisrv.xcore.traps import Trap, TrapKind

RESOURCE_TYPE: Final = 1


def _signed(difference: int) -> int:
    return (difference + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class Timer:
    """One of the ten timers of a tile. A `time` is in ticks of 10 ns and wraps: times compare within 21 s."""

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        """Create a timer with a number from its tile's pool, which gets it back when the timer is freed."""
        self.runtime: Final = runtime
        self.number: Final = pool.take()
        self.resource_id: Final = runtime.resource_id(tile, RESOURCE_TYPE, self.number)
        self.name: Final = f"timer 0x{self.resource_id:08x}"
        """Name with resource id, as traps and reports give it."""
        self.tile: Final = tile
        """The tile's number."""
        self._pool = pool
        self._freed = False
        self._waiting = False
        self._user: User | None = None

    def now(self) -> int:
        """Read the timer: 32 bits of 10 ns ticks (`t :> now`)."""
        self._check_usable("in")
        return self.runtime.clock.ticks() & 0xFFFFFFFF

    def after(self, time: int) -> "TimerAfter":
        """Return the event `t when timerafter(time) :> void`, for a select or `wait`."""
        self._check_usable("setd")
        return TimerAfter(self, time)

    @traced_verb("in")
    async def wait_after(self, time: int) -> int:
        """Wait until the timer is after `time` and read it; a checkpoint even where it is already."""
        event = self.after(time)
        await self.runtime.begin_verb()
        with self.in_use("in"):
            await traced_wait(trio.sleep_until(event.deadline), "in", self)
        return self.now()

    def free(self) -> None:
        """Give the timer back to its tile; one that a core waits for traps. After its node's end: nothing."""
        if self.runtime.has_ended:
            return
        self._check_usable("freer")
        self._freed = True
        self._pool.give_back(self.number)

    @contextmanager
    def in_use(self, verb: str) -> Iterator[None]:
        """Wait for the timer within the block: any other use of it traps with RESOURCE_DEP.

        `verb` is what reports call the wait.
        """
        self._check_usable(verb)
        self._waiting, self._user = True, current_user()
        try:
            yield
        finally:
            self._waiting, self._user = False, None

    def _check_usable(self, verb: str) -> None:
        core = current_core()
        if not self._freed and not self._waiting and (core is None or core.tile == self.tile):
            return
        place = f"{verb} on {self.name}"
        check_tile(self.tile, place)
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which was freed", place)
        if self._waiting:
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {name_of(self._user)} waits for it", place)


class TimerAfter:
    """The event that a timer has passed a `time` in ticks: strictly, `(int32)(now - time) > 0`."""

    def __init__(self, timer: Timer, time: int) -> None:
        self.timer: Final = timer
        self.runtime: Final = timer.runtime
        self.tile: Final = timer.tile
        """The number of the timer's tile."""
        self.name: Final = timer.name
        self._clock = timer.runtime.clock
        self.on_change: Callable[[], None] | None = None
        """Called as its time is changed, where it interrupts a core."""
        self._set(time)

    def change(self, time: int) -> None:
        """Change the time, for the next wait (`hwtimer_change_trigger_time`)."""
        self.timer.after(time)  # which checks that the timer may be used
        self._set(time)
        if self.on_change is not None:
            self.on_change()

    def _set(self, time: int) -> None:
        now = self._clock.ticks()
        self.due = now + _signed(time - now & 0xFFFFFFFF) + 1
        self.deadline = self._clock.deadline(self.due)

    @property
    def ready(self) -> bool:
        """Return whether that time has passed."""
        return self._clock.ticks() >= self.due
