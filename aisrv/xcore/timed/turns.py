"""Who has the next turn, of all nodes of a Trio run that are in device time.

On a virtual clock a turn comes when all tasks wait: so the outside acts at a tick before cores do, and one
core has come to rest before the next one runs. On a live clock one core has run to its next wait.
"""

import math
from collections.abc import Callable
from typing import Final, Protocol

import trio
from trio.lowlevel import RunVar, cancel_shielded_checkpoint, spawn_system_task
from trio.testing import wait_all_tasks_blocked

from aisrv.xcore.clock import Clock

_MORE_BATCHES: Final = 16
"""Batches of Trio's in which a task outside of the cores comes to its next wait."""


class Turn:
    """Something to be done at a tick, in its place among what others do then."""

    __slots__ = ("act", "key", "tick")

    def __init__(self, key: tuple[int, int, int, int], act: Callable[[], object]) -> None:
        self.key: Final = key
        """Tick, tile, core, request."""
        self.tick: Final = key[0]
        self.act: Callable[[], object] | None = act
        """The act; None once it is called off."""

    def __lt__(self, other: "Turn") -> bool:
        return self.key < other.key

    def call_off(self) -> None:
        """Do nothing when it comes."""
        self.act = None


class NodeTurns(Protocol):
    """The turns of one node."""

    @property
    def number(self) -> int:
        """Number of the node."""

    @property
    def is_virtual(self) -> bool:
        """Return whether its time passes as all tasks wait."""

    @property
    def reference(self) -> Clock:
        """Its reference clock."""

    @property
    def first(self) -> Turn | None:
        """The turn that comes next."""

    def take(self, turn: Turn) -> None:
        """Do what is first."""

    begins: bool
    """Whether a task at the pins, or a callback, has begun its turn and not come to its next wait yet."""

    starting: int
    """Cores whose task has not come to ask for its first turn yet."""

    def turn_ended(self) -> None:
        """Note that who had the last turn waits again, or is at work for longer."""

    @property
    def is_held(self) -> bool:
        """Return whether the turn that comes next is held, as a core is at work."""

    @property
    def held_until(self) -> float:
        """Trio's time up to which it is held."""

    def trio_tick(self, turn: Turn) -> int:
        """Return the tick of a turn on Trio's clock."""


class Turns:
    """The timelines of a Trio run. One task gives the turns."""

    def __init__(self) -> None:
        self._timelines: list[NodeTurns] = []
        self._sleeping: trio.CancelScope | None = None

    def join(self, timeline: NodeTurns) -> None:
        """Take the timeline of a node up; those of one tick go by the numbers of their nodes."""
        self._timelines.append(timeline)
        self._timelines.sort(key=lambda each: each.number)

    def leave(self, timeline: NodeTurns) -> None:
        """Forget the timeline of a node that has ended."""
        self._timelines.remove(timeline)

    def changed(self) -> None:
        """Look again, as a turn was added that may be the first."""
        if self._sleeping is not None:
            self._sleeping.cancel()

    @property
    def is_at_rest(self) -> bool:
        """Return whether no turn is due: the first one is of a later tick, or there is none."""
        return self._sleeping is not None

    async def give(self) -> None:
        """Give turns, one at a time, until cancelled."""
        while True:
            await self._rest()
            held = math.inf
            for each in self._timelines:
                each.turn_ended()
                if not each.is_virtual and each.is_held:
                    held = min(held, each.held_until)
            timeline = self._next()
            if timeline is None or (turn := timeline.first) is None:
                await self._sleep(held)
            elif turn.tick > timeline.reference.ticks():
                await self._sleep(min(held, timeline.reference.deadline(turn.tick)))
            else:
                timeline.take(turn)

    async def _rest(self) -> None:
        """Wait until whoever had the last turn waits again."""
        if any(timeline.is_virtual for timeline in self._timelines):
            await wait_all_tasks_blocked()
        else:  # in the first of two batches of Trio's the task runs, in whichever order
            await cancel_shielded_checkpoint()
            await cancel_shielded_checkpoint()
            for _ in range(_MORE_BATCHES):  # what is at the pins may wait for something else as well
                if not any(timeline.begins or timeline.starting for timeline in self._timelines):
                    break
                await cancel_shielded_checkpoint()
            for timeline in self._timelines:
                timeline.begins = False

    def _next(self) -> NodeTurns | None:
        """Return the timeline whose turn is first and not held, of one tick that of the lowest number."""
        best: NodeTurns | None = None
        best_tick = 0
        for timeline in self._timelines:
            turn = timeline.first
            if turn is None or (not timeline.is_virtual and timeline.is_held):
                continue
            tick = timeline.trio_tick(turn)
            if best is None or tick < best_tick:
                best, best_tick = timeline, tick
        return best

    async def _sleep(self, deadline: float) -> None:
        with trio.CancelScope(deadline=deadline) as self._sleeping:
            await trio.sleep_forever()
        self._sleeping = None


_turns: Final[RunVar[Turns]] = RunVar("turns of nodes in device time")


def turns_of_run() -> Turns:
    """Return the turns of the Trio run, which end with it."""
    try:
        return _turns.get()
    except LookupError:
        turns = Turns()
        _turns.set(turns)
        spawn_system_task(turns.give, name="turns of nodes in device time")
        return turns
