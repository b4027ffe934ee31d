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


class Turn:
    """Something to be done at a tick, in its place among what others do then."""

    __slots__ = ("act", "key", "tick")

    def __init__(self, key: tuple[int, int, int, int], act: Callable[[], object]) -> None:
        self.key: Final = key
        """Tick, tile, core, request."""
        self.tick: Final = key[0]
        self.act: Callable[[], object] | None = act
        """What is done; None where it is called off."""

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
        """Whether its time passes as all tasks wait."""

    @property
    def reference(self) -> Clock:
        """Its reference clock."""

    @property
    def first(self) -> Turn | None:
        """The turn that comes next."""

    def take(self, turn: Turn) -> None:
        """Do what is first."""

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
        """Whether no turn is due: the first one is of a later tick, or there is none."""
        return self._sleeping is not None

    async def give(self) -> None:
        """Give turns, one at a time, until cancelled."""
        while True:
            await self._rest()
            timeline = self._next()
            if timeline is None or (turn := timeline.first) is None:
                await self._sleep(math.inf)
            elif turn.tick > timeline.reference.ticks():
                await self._sleep(timeline.reference.deadline(turn.tick))
            else:
                timeline.take(turn)

    async def _rest(self) -> None:
        """Wait until whoever had the last turn waits again."""
        if any(timeline.is_virtual for timeline in self._timelines):
            await wait_all_tasks_blocked()
        else:  # in the first of two batches of Trio's the task runs, in whichever order
            await cancel_shielded_checkpoint()
            await cancel_shielded_checkpoint()

    def _next(self) -> NodeTurns | None:
        """Return the timeline whose turn is first, of one tick that of the lowest number."""
        best: NodeTurns | None = None
        best_tick = 0
        for timeline in self._timelines:
            turn = timeline.first
            if turn is not None and (best is None or timeline.trio_tick(turn) < best_tick):
                best, best_tick = timeline, timeline.trio_tick(turn)
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
