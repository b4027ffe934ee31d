"""Timers in device time."""

from aisrv.xcore.core import current_core
from aisrv.xcore.pool import Pool
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timed.device_costs import RESOURCE_SLOTS
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.timer import Timer, TimerAfter
from aisrv.xcore.traced import traced_verb, traced_wait


class TimedTimer(Timer):
    """A timer that is read at the clock of the core that reads it."""

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        assert isinstance(runtime, TimedRuntime)  # noqa: S101 - for the type checker
        super().__init__(runtime, tile, pool)
        self._timeline = runtime.timeline
        self._timeline.charge_slots(RESOURCE_SLOTS)

    def now(self) -> int:
        """Read the timer, which takes a slot: 32 bits of 10 ns ticks."""
        self._check_usable("in")
        self._timeline.charge_slots(RESOURCE_SLOTS)
        return self._read()

    def after(self, time: int) -> TimerAfter:
        """Return the event that the timer is after `time`."""
        self._check_usable("setd")
        return TimedTimerAfter(self, time)

    @traced_verb("in")
    async def wait_after(self, time: int) -> int:
        """Wait until the timer is after `time` and read it, which takes a slot before the wait."""
        event = self.after(time)
        await self.runtime.begin_verb()
        timeline = self._timeline
        with self.in_use("in"):
            await traced_wait(timeline.wait_until(timeline.clock_at(event.due)), "in", self)
        return self._read()

    def _read(self) -> int:
        return self.runtime.tick_of(current_core()) & 0xFFFFFFFF


class TimedTimerAfter(TimerAfter):
    """The event that a timer has passed a time, at the clock of the core that asks."""

    @property
    def ready(self) -> bool:
        """Return whether that time has passed."""
        return self.timer.runtime.tick_of(current_core()) >= self.due
