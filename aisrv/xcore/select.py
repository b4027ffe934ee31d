"""Select: wait for the first of several events. Rules: "The XCORE substrate", section Select."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import outcome
import trio

from aisrv.xcore.core import Parking
from aisrv.xcore.route import Listener
from aisrv.xcore.timer import TimerAfter
from aisrv.xcore.traps import XcoreError

if TYPE_CHECKING:
    from aisrv.xcore.node import Node


class SelectError(XcoreError, ValueError):
    """A select that the compiler would refuse."""


class Selectable(Protocol):
    """A resource that raises events by itself: a channel end, an endpoint."""

    @property
    def name(self) -> str:
        """Name for traps and reports."""

    @property
    def ready(self) -> bool:
        """Whether its event is there."""

    def listen(self, listener: Listener) -> None:
        """Let the listener know when it becomes ready."""

    def stop_listening(self) -> None:
        """Forget the listener."""


Event = Selectable | TimerAfter


@dataclass(frozen=True, slots=True)
class Case:
    """An event with a guard, which is evaluated each time a select is entered; false leaves the case out."""

    event: Event
    guard: Callable[[], bool]


class Selection:
    """A select to enter again and again. All cases share one waiter, which is woken once however many fire.

    Raises SelectError where a resource stands in two cases. `wait` is for one core at a time.
    """

    def __init__(self, node: "Node", *cases: Event | Case, ordered: bool = False) -> None:
        self._node = node
        self._parking = Parking(node)
        self._ordered = ordered
        self._cases = cases
        self._events = [case.event if isinstance(case, Case) else case for case in cases]
        self._guarded = any(isinstance(case, Case) for case in cases)
        self._timed = any(isinstance(event, TimerAfter) for event in self._events)
        resources = [event.timer if isinstance(event, TimerAfter) else event for event in self._events]
        if len(set(map(id, resources))) != len(resources):
            names = ", ".join(event.name for event in self._events)
            raise SelectError(f"a resource may stand in one case of a select only: {names}")

    @property
    def name(self) -> str:
        """What a core in it waits for, as deadlock reports give it."""
        return " or ".join(event.name for event in self._enabled()) or "no case whose guard holds"

    async def wait(self) -> Event:
        """Wait for an event and return it; of several that are ready any one, or the first where ordered.

        Nothing is consumed: the caller goes on with an input on the resource returned.
        """
        events = self._enabled()
        return self._choose(events) or await self._wait_for(events)

    async def wait_or_default(self) -> Event | None:
        """Return a ready event, or None for the default case, after letting other tasks run."""
        chosen = self._choose(self._enabled())
        if chosen is None:
            await trio.lowlevel.checkpoint()
        return chosen

    def fire(self, resource: object) -> None:
        """Wake the core, for the resource that is ready."""
        self._parking.wake(outcome.Value(resource))

    def _enabled(self) -> list[Event]:
        if not self._guarded:
            return self._events
        pairs = zip(self._cases, self._events, strict=True)
        return [event for case, event in pairs if not isinstance(case, Case) or case.guard()]

    def _choose(self, events: list[Event]) -> Event | None:
        ready = [event for event in events if event.ready]
        if not ready:
            return None
        return ready[0] if self._ordered or len(ready) == 1 else self._node.random.choice(ready)

    async def _wait_for(self, events: list[Event]) -> Event:
        """Park until an event comes; a deadline among the events counts as one."""
        listening: list[Selectable] = []
        try:
            for event in events:
                if not isinstance(event, TimerAfter):
                    event.listen(self)
                    listening.append(event)
            timers = [event for event in events if isinstance(event, TimerAfter)] if self._timed else []
            if not timers:
                return await self._park(timed=False)
            first = min(timers, key=lambda event: event.deadline)
            with trio.CancelScope(deadline=first.deadline):
                return await self._park(timed=True)
            return first
        finally:
            for event in listening:
                event.stop_listening()

    async def _park(self, *, timed: bool) -> Event:
        fired: Event = await self._parking.park("select", self, _nothing, timed=timed)
        return fired


def _nothing() -> None:
    """Withdraw a select: `_wait_for` takes its listeners back."""


async def select(node: "Node", *cases: Event | Case, ordered: bool = False) -> Event:
    """Wait for one of the events, once; see `Selection.wait`."""
    return await Selection(node, *cases, ordered=ordered).wait()


async def select_or_default(node: "Node", *cases: Event | Case, ordered: bool = False) -> Event | None:
    """Take a ready event, or the default; see `Selection.wait_or_default`."""
    return await Selection(node, *cases, ordered=ordered).wait_or_default()
