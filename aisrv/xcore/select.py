"""Select: wait for the first of several events. Rules: "The XCORE substrate", section Select."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, Protocol

import trio
from msgspec import Struct

from aisrv.xcore.channels.listener import Answer, Call, Listener
from aisrv.xcore.core import Core, check_tile, current_core
from aisrv.xcore.report import WokenByCores, wakers_of
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timer import TimerAfter
from aisrv.xcore.traced import traced_verb
from aisrv.xcore.traps import XcoreError

logger = logging.getLogger(__name__)


class SelectError(XcoreError, ValueError):
    """A select that the compiler would refuse."""


class Selectable(Protocol):
    """A resource that raises events by itself: a channel end, an endpoint."""

    @property
    def runtime(self) -> Runtime:
        """Runtime that all resources of its node share."""

    @property
    def name(self) -> str:
        """Name for traps and reports."""

    @property
    def ready(self) -> bool:
        """Return whether its event is there."""

    def listen(self, listener: Listener) -> None:
        """Let the listener know when it becomes ready."""

    def stop_listening(self, listener: Listener) -> None:
        """Remove the listener, if it is this one."""


Event = Selectable | TimerAfter


class Case(Struct, frozen=True):
    """An event with a guard, which is evaluated each time a select is entered; false leaves the case out."""

    event: Event
    guard: Callable[[], bool]


OnCall = Callable[[Call], Answer | None]
"""Answers a client with a word and an array. None, or an error, where the core is needed: nothing changes."""


class SelectStatistics(Struct, frozen=True):
    """State of a select at one moment."""

    cases: int
    cases_enabled: int
    """Cases whose guard holds now, or that have none."""
    events_ready: int
    """Enabled cases whose event is there."""
    waiting: bool
    """Whether a core is parked in it."""


class Selection:
    """A select to enter again and again. All cases share one waiter, which is woken once however many fire.

    Raises SelectError where a resource stands in two cases, or there is no case. `wait` is for one core at a
    time. `ordered` takes the first ready case, and not any of them.

    While the core waits, `on_call` answers clients in their own tasks and the core sleeps on: as XC runs the
    functions of a distributable task on the cores that call them. It changes nothing that a guard depends on.
    A core that `takes_calls` looks for one at the end that its select returns, `ChanEnd.take_call`, before it
    inputs there.
    """

    def __init__(
        self,
        *cases: Event | Case,
        ordered: bool = False,
        on_call: OnCall | None = None,
        takes_calls: bool = False,
    ) -> None:
        self._ordered = ordered
        self._on_call = on_call
        self._takes_calls = takes_calls
        self._guarded = any(isinstance(case, Case) for case in cases)
        self._cases = cases if self._guarded else ()
        self._events = tuple(case.event if isinstance(case, Case) else case for case in cases)
        if not self._events:
            raise SelectError("a select must have a case")
        self.runtime: Final = self._events[0].runtime
        """The runtime of the node of its events."""
        self._parking = self.runtime.event_parking(self.runtime)
        self._of_tiles: list[Any] = [event for event in self._events if hasattr(event, "tile")]
        self._entered_by: Core | None = None
        self._awaited: Sequence[Event] = ()
        self._timed = any(isinstance(event, TimerAfter) for event in self._events)
        resources = [event.timer if isinstance(event, TimerAfter) else event for event in self._events]
        if len(set(map(id, resources))) != len(resources):
            names = ", ".join(event.name for event in self._events)
            raise SelectError(f"a resource may stand in one case of a select only: {names}")

    @property
    def name(self) -> str:
        """Name of what a core in it waits for, as deadlock reports give it."""
        return " or ".join(event.name for event in self.awaited) or "no case whose guard holds"

    @property
    def awaited(self) -> Sequence[Event]:
        """The events that the core waits for; those enabled now where none does."""
        return self._awaited or self._enabled()

    @traced_verb("select")
    async def wait(self) -> Event:
        """Wait for an event and return it; of several that are ready any one, or the first where ordered.

        Nothing is consumed: the caller goes on with an input on the resource returned.
        """
        await self.runtime.begin_verb()
        self._check_tiles()
        events = self._enabled()
        return self._choose(events) or await self._wait_for(events)

    @traced_verb("select")
    async def wait_or_default(self) -> Event | None:
        """Return a ready event, or None for the default case, after letting other tasks run.

        On virtual time the second default in a row at one tick takes time, see `Poll`. An event ends that at
        once, and is for the next turn.
        """
        runtime = self.runtime
        await runtime.begin_verb()
        self._check_tiles()
        events = self._enabled()
        chosen = self._choose(events)
        if chosen is None:
            await runtime.default_case()
        if runtime.clock.is_virtual:
            core = current_core()
            poll = runtime.poll if core is None else core.poll
            if chosen is not None:
                poll.end()
            elif step := poll.step(runtime.clock.ticks()):
                await self._let_time_pass(events, step)
        return chosen

    async def _let_time_pass(self, events: Sequence[Event], ticks: int) -> None:
        """Let virtual time pass, up to the next event at most."""
        if self._choose(events) is None:
            clock = self.runtime.clock
            with trio.move_on_at(clock.deadline(clock.ticks() + ticks)):
                await self._wait_for(events, timed=True)

    def wakers(self) -> list[Core | None]:
        """Return the cores of which any could wake the one that waits here; None is somebody outside."""
        found: list[Core | None] = []
        for event in self.awaited:
            wakers = wakers_of(event)
            found += (None,) if wakers is None else wakers
        return found

    def explain_wait(self) -> str:
        """Describe what each enabled event waits for, with its name where there are several."""
        events = self.awaited
        return "; ".join(
            f"{event.name}: {event.explain_wait()}" if len(events) > 1 else event.explain_wait()
            for event in events
            if isinstance(event, WokenByCores)
        )

    def statistics(self) -> SelectStatistics:
        """Count its cases, evaluating their guards, and the events that are there."""
        enabled = self._enabled()
        return SelectStatistics(
            cases=len(self._events),
            cases_enabled=len(enabled),
            events_ready=sum(event.ready for event in enabled),
            waiting=self._parking.task is not None,
        )

    use = "a select"

    @property
    def user_name(self) -> str:
        """Name of the core that waits in it, or of the task outside of any core."""
        return self._parking.user_name

    def fire(self, resource: object) -> None:
        """Wake the core, for the resource that is ready."""
        self._parking.wake(resource)

    def answer(self, call: Call) -> Answer | None:
        """Answer a client where the core still waits, with no event at any of its ends."""
        if self._on_call is None or self._parking.task is None:
            return None
        try:
            return self._on_call(call)
        except Exception:  # not the client's: the core meets it, too, as it carries the call out itself
            logger.debug("%s: a call goes to the core, as its handler failed", self.name, exc_info=True)
            return None

    @property
    def has_others(self) -> bool:
        """Return whether it has more than one case."""
        return len(self._events) > 1

    @property
    def takes_calls(self) -> bool:
        """Return whether the core still waits, with no event at any of its ends, and takes calls."""
        return self._takes_calls and self._parking.task is not None

    def ready_event(self) -> Event | None:
        """Choose an event that is there, of those that the core waits for; None where there is none."""
        return self._choose(self._awaited)

    def next_clocks(self) -> Iterator[int]:
        """Clocks of runs that lie at its ends and may be later than its core, in device time."""
        clocks = (getattr(event, "next_clock", None) for event in self._awaited)
        return (clock for clock in clocks if clock is not None)

    def _check_tiles(self) -> None:
        """Trap where a resource is not of the running core's tile, also where a guard leaves its case out."""
        core = current_core()
        if core is not self._entered_by:
            for event in self._of_tiles:
                check_tile(event.tile, f"select on {event.name}")
            self._entered_by = core

    def _enabled(self) -> Sequence[Event]:
        if not self._guarded:
            return self._events
        pairs = zip(self._cases, self._events, strict=True)
        return [event for case, event in pairs if not isinstance(case, Case) or case.guard()]

    def _choose(self, events: Sequence[Event]) -> Event | None:
        ready = [event for event in events if event.ready]
        if not ready:
            return None
        return ready[0] if self._ordered or len(ready) == 1 else self.runtime.random.choice(ready)

    async def _wait_for(self, events: Sequence[Event], *, timed: bool = False) -> Any:  # noqa: ANN401 - an Event
        """Park until an event comes; a deadline among the events counts as one.

        With `timed` the caller bounds the wait.
        """
        timers = [event for event in events if isinstance(event, TimerAfter)] if self._timed else ()
        resources: Sequence[Any] = [event for event in events if event not in timers] if timers else events
        self._awaited = events
        try:
            for resource in resources:
                resource.listen(self)
            if not timers:
                return await self._parking.park_for_event("select", self, timed=timed)
            first = min(timers, key=lambda event: event.deadline)
            with ExitStack() as used:
                for event in timers:
                    used.enter_context(event.timer.in_use("select"))
                return await self._parking.park_until(first, self)
        finally:
            self._awaited = ()
            for resource in resources:
                resource.stop_listening(self)


async def select(*cases: Event | Case, ordered: bool = False) -> Event:
    """Wait for one of the events, once; see `Selection.wait`.

    `ordered` takes the first ready case, and not any of them.
    """
    return await Selection(*cases, ordered=ordered).wait()


async def select_or_default(*cases: Event | Case, ordered: bool = False) -> Event | None:
    """Take a ready event, or the default; see `Selection.wait_or_default`.

    `ordered` takes the first ready case, and not any of them.
    """
    return await Selection(*cases, ordered=ordered).wait_or_default()
