"""Where tasks of a node in device time sleep until another wakes them: they run on in their turn."""

import types
from collections.abc import Callable, Generator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from aisrv.xcore.core import Resource, current_core
from aisrv.xcore.runtime import AwaitedEvent, EventSource, Parking, Runtime
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.waiter import Failure, Sleep, no_cleanup

if TYPE_CHECKING:
    from aisrv.xcore.timed.timeline import Timeline
    from aisrv.xcore.timed.turns import Turn

T = TypeVar("T")


class TimedParking(Parking[T]):
    """A waiter whose task runs on at the clock of whoever woke it, or its own where that is later."""

    __slots__ = ("_counted", "_sleeper", "_timeline")

    def __init__(self, runtime: Runtime, timeline: "Timeline") -> None:
        super().__init__(runtime)
        self._timeline = timeline
        self._sleeper: TimedCore | None = None
        self._counted: TimedCore | None = None
        """The core that does not run, while it sleeps here."""

    def park(
        self,
        verb: str,
        resource: Resource,
        withdraw: Callable[[], object] = no_cleanup,
        *,
        timed: bool = False,
    ) -> "Sleep[T]":
        """Sleep as in `Parking.park`; the core does not count as running, with `timed` too."""
        core = current_core()
        if isinstance(core, TimedCore) and core.task is current_task():
            self._counted = core
            self._timeline.core_waits(core)
        return super().park(verb, resource, withdraw, timed=timed)

    @types.coroutine
    def _sleep(self, task: Task, withdraw: Callable[[], object]) -> Generator[Any, Any, T]:
        core = current_core()
        self._sleeper = core if isinstance(core, TimedCore) else None
        self.task = task
        self._withdraw = withdraw

        def abort(_: object) -> Abort:
            if self.task is not task:
                return Abort.FAILED  # it was woken, and what it waited for is done: its turn comes
            return self._abort(None)

        counted = self._counted
        self._timeline.waits(task)
        try:
            yield from wait_task_rescheduled(abort)  # noqa: ASYNC105 - a generator, as in `Waiter`
        finally:
            if counted is not None:
                counted.waits_since = None
        result: T | Failure = task.custom_sleep_data
        task.custom_sleep_data = None
        if isinstance(result, Failure):
            raise result.error
        return result

    async def park_to_tick(self, tick: int, verb: str, resource: Resource) -> None:
        """Wait until it is woken, or until a tick, in its turn."""
        clock = self._timeline.clock_at(tick)
        turn = self._timeline.at(clock, lambda: self.wake_at(clock, cast("T", None)))
        try:
            await self.park(verb, resource, timed=True)
        finally:
            turn.call_off()

    def wake(self, value: T) -> bool:
        """Let the task run on with a value in its turn, at the clock of the running core or its own."""
        return self.wake_at(self._timeline.now(), value)

    def wake_at(self, clock: int, value: T) -> bool:
        """Let the task run on with a value in its turn, at a clock or its own; False where none sleeps."""
        task, core = self.task, self._sleeper
        if task is None:
            return False
        if core is not None:
            core.clock = clock = max(core.clock, clock)

        def run_on() -> None:
            if core is not None:
                self._timeline.began(task)
            reschedule(task)
            task.custom_sleep_data = value

        self._leave()
        self._timeline.at(clock, run_on, core)
        return True

    def _leave(self) -> None:
        super()._leave()
        core, self._counted = self._counted, None
        if core is not None:
            self._timeline.core_goes_on(core)


class HostParking(TimedParking[T]):
    """A waiter for what a host does: its task runs on at the host's time, after all that was due before."""

    __slots__ = ()

    def wake(self, value: T) -> bool:
        """Let the task run on with a value in its turn; on a late node that is not the present tick."""
        return self.wake_at(self._timeline.arrival(), value)


class UsedEnd(Protocol):
    """A channel end in device time."""

    @property
    def clock(self) -> int:
        """The clock of whoever uses the end."""


class VerbParking(TimedParking[Any]):
    """Where the task of a verb on a channel end sleeps: the verb's steps have set the core's clock."""

    __slots__ = ("_end",)

    def __init__(self, runtime: Runtime, timeline: "Timeline") -> None:
        super().__init__(runtime, timeline)
        self._end: UsedEnd | None = None
        """The end whose verb sleeps here."""

    def park(
        self,
        verb: str,
        resource: Resource,
        withdraw: Callable[[], object] = no_cleanup,
        *,
        timed: bool = False,
    ) -> "Sleep[Any]":
        """Sleep as in `Parking.park`, in a verb on an end."""
        self._end = cast("UsedEnd", resource)
        return super().park(verb, resource, withdraw, timed=timed)

    def wake(self, value: Any) -> bool:  # noqa: ANN401 - what the verb returns
        """Let the task run on with the verb's result, in its turn, at the clock of who uses the end."""
        return False if self._end is None else self.wake_at(self._end.clock, value)

    def _leave(self) -> None:
        super()._leave()
        self._end = None


class TimedEventParking(TimedParking[Any]):
    """Where a core waits in a select: it looks at its events when the first of them is due.

    What fires may be of a core that is ahead: an earlier event may yet come.
    """

    __slots__ = ("_clock", "_turn")

    def __init__(self, runtime: Runtime, timeline: "Timeline") -> None:
        super().__init__(runtime, timeline)
        self._turn: Turn | None = None
        self._clock = 0
        """The clock at which it looks."""

    async def park_for_event(
        self,
        verb: str,  # noqa: ARG002 - that of a select
        source: EventSource,
        withdraw: Callable[[], object] = no_cleanup,  # noqa: ARG002 - a select has none
        *,
        timed: bool = False,
    ) -> Any:  # noqa: ANN401 - an event
        """Wait for one of the events."""
        while (chosen := await self._look(source, None, timed=timed)) is None:
            pass
        return chosen

    async def park_until(self, last: AwaitedEvent, source: EventSource) -> Any:  # noqa: ANN401 - an event
        """Wait for one of the events, of which `last` is sure to come."""
        while (chosen := await self._look(source, last.due, timed=True)) is None:
            pass
        return chosen

    async def _look(self, source: EventSource, due: int | None, *, timed: bool) -> Any:  # noqa: ANN401
        """Sleep until an event may be there, and choose one that is."""
        core = current_core()
        sleep = self.park("select", source, self._call_off, timed=timed)
        self.task = current_task()
        if isinstance(core, TimedCore):
            self._sleeper = core
        if due is not None:
            self._look_at(self._timeline.clock_at(due))
        for clock in source.next_clocks():
            self._look_at(clock)
        await sleep
        return source.ready_event()

    def wake(self, value: Any) -> bool:  # noqa: ANN401 - an event
        """Look when the event of `value` is due: that of its first run, or the clock of who runs now."""
        if self.task is None:
            return False
        clock: int | None = getattr(value, "next_clock", None)
        self._look_at(self._timeline.now() if clock is None else clock)
        return True

    def _look_at(self, clock: int) -> None:
        """Let the core look at a clock, or earlier where it would anyhow."""
        core = self._sleeper
        if core is not None:
            clock = max(clock, core.clock)
        if self._turn is not None:
            if self._clock <= clock:
                return
            self._turn.call_off()
        self._clock = clock
        waker = copy_context()  # tracers hear who woke it
        self._turn = self._timeline.at(clock, lambda: waker.run(self._wake_now, clock), core)

    def _wake_now(self, clock: int) -> None:
        task, core = self.task, self._sleeper
        self._turn = None
        if task is None:
            return
        if core is not None:
            core.clock = max(core.clock, clock)
        self._leave()
        if core is not None:
            self._timeline.began(task)
        reschedule(task)
        task.custom_sleep_data = None

    def _call_off(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.call_off()
