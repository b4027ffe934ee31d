"""Where a task at the pins of a node in device time sleeps: it runs on in a turn, before its tick's cores."""

from typing import TYPE_CHECKING

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from aisrv.xcore.core import current_core
from aisrv.xcore.tick_waiter import TickWaiter
from aisrv.xcore.timed.core import TimedCore

if TYPE_CHECKING:
    from aisrv.xcore.timed.timeline import Timeline
    from aisrv.xcore.timed.turns import Turn


class TimedTickWaiter(TickWaiter):
    """A place for one task, which may be that of a core: its clock is that of the turn then, or later."""

    def __init__(self, timeline: "Timeline") -> None:
        super().__init__(timeline.reference)
        self._timeline = timeline
        self._task: Task | None = None
        self._turn: Turn | None = None
        self._core: TimedCore | None = None

    def wake(self) -> None:
        """Let the task run on in its turn, at the clock of who runs now, if one sleeps."""
        if self._task is not None:
            self._run_at(self._timeline.now())

    async def sleep(self, tick: int | None) -> None:
        """Sleep until `wake`, or until a tick."""
        timeline, running, task = self._timeline, current_core(), current_task()
        self._task = task
        self._core = core = running if isinstance(running, TimedCore) else None
        alone = core if core is not None and core.task is task else None
        if alone is not None:
            timeline.core_waits(alone)
        if tick is not None:
            self._run_at(timeline.clock_at(tick))
        if self._core is None:
            timeline.begins = False
        timeline.waits(task)
        try:
            await wait_task_rescheduled(self._abort)
        finally:
            if alone is not None:
                timeline.core_goes_on(alone)
                alone.waits_since = None

    def _run_at(self, clock: int) -> None:
        """Have the task run on at a clock, or earlier where it does anyhow."""
        if self._core is not None:
            clock = max(clock, self._core.clock)
        if self._turn is not None:
            if self._turn.tick <= self._timeline.tick_of(clock):
                return
            self._turn.call_off()
        self._turn = self._timeline.at(clock, lambda: self._run_on(clock), self._core)

    def _run_on(self, clock: int) -> None:
        task, self._task, self._turn = self._task, None, None
        if task is None:
            return
        if self._core is None:
            self._timeline.begins = True
        else:
            self._core.clock = max(self._core.clock, clock)
            self._timeline.began(task)
        reschedule(task)

    def _abort(self, _: object) -> Abort:
        turn, self._task, self._turn = self._turn, None, None
        if turn is not None:
            turn.call_off()
        return Abort.SUCCEEDED
