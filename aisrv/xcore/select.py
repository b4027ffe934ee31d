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


class _Selection:
    """The one waiter that all cases of a select share; firing it twice wakes it once."""

    def __init__(self, node: "Node", events: list[Event]) -> None:
        self._parking = Parking(node)
        self._events = events

    @property
    def name(self) -> str:
        return " or ".join(event.name for event in self._events) or "no case whose guard holds"

    def fire(self, resource: object) -> None:
        self._parking.wake(outcome.Value(resource))

    async def wait(self) -> Event:
        """Park until an event comes; a deadline among the events counts as one."""
        timed = [event for event in self._events if isinstance(event, TimerAfter)]
        listening: list[Selectable] = []
        try:
            for event in self._events:
                if not isinstance(event, TimerAfter):
                    event.listen(self)
                    listening.append(event)
            if not timed:
                return await self._park(timed=False)
            first = min(timed, key=lambda event: event.deadline)
            with trio.CancelScope(deadline=first.deadline):
                return await self._park(timed=True)
            return first
        finally:
            for event in listening:
                event.stop_listening()

    async def _park(self, *, timed: bool) -> Event:
        fired: Event = await self._parking.park("select", self, lambda: None, timed=timed)
        return fired


def _enabled(cases: tuple[Event | Case, ...]) -> list[Event]:
    events = [case.event if isinstance(case, Case) else case for case in cases]
    resources = [event.timer if isinstance(event, TimerAfter) else event for event in events]
    if len(set(map(id, resources))) != len(events):
        names = ", ".join(event.name for event in events)
        raise SelectError(f"a resource may stand in one case of a select only: {names}")
    return [
        event for case, event in zip(cases, events, strict=True) if not isinstance(case, Case) or case.guard()
    ]


def _choose(node: "Node", events: list[Event], ordered: bool) -> Event | None:
    ready = [event for event in events if event.ready]
    if not ready:
        return None
    return ready[0] if ordered or len(ready) == 1 else node.random.choice(ready)


async def select(node: "Node", *cases: Event | Case, ordered: bool = False) -> Event:
    """Wait for an event and return it; of several that are ready any one, or the first with `ordered`.

    Nothing is consumed: the caller goes on with an input on the resource returned.
    """
    events = _enabled(cases)
    return _choose(node, events, ordered) or await _Selection(node, events).wait()


async def select_or_default(node: "Node", *cases: Event | Case, ordered: bool = False) -> Event | None:
    """Return a ready event, or None for the default case, after letting other tasks run."""
    chosen = _choose(node, _enabled(cases), ordered)
    if chosen is None:
        await trio.lowlevel.checkpoint()
    return chosen
