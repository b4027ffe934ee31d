"""The timeline of a node in device time: in which order its cores run, and when.

Each core has a clock of its own: clocks of a core, whole, since the node started. What it does adds to that
and goes on, so a core is ahead of Trio's clock. Where others could see the difference it settles: it waits
for the tick of its clock, rounded up. All waits of cores end here, in turns: of the heap the first by tick,
tile, core and request, one at a time, and the next when that core waits again. So Trio's order is of no
consequence. Rules: docs/guides/device-time.md.
"""

import heapq
import types
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any, Final

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from aisrv.xcore.clock import TICKS_PER_SECOND, Clock
from aisrv.xcore.core import Core, current_core
from aisrv.xcore.timed.at_work import AtWork
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.device_costs import ISSUE_SLOTS
from aisrv.xcore.timed.turns import Turn, Turns

AHEAD_TICKS: Final = 1_000
"""A core that is as far ahead of virtual time settles."""
AHEAD_TICKS_LIVE: Final = 20_000
"""As `AHEAD_TICKS`, where time is the machine's: a wait costs more there, and nobody sees that little."""
LATE_TICKS: Final = 100_000
"""A turn that comes more than this after its tick counts as late."""
OUTSIDE: Final = -1
"""In place of a tile, of tasks outside of any core: they have their turn first."""


class Timeline:
    """Clocks, charges and turns of one node. A `clock` is in clocks of a core since the node started.

    A node of `aisrv.xcore.timed.classes.TIMED` has one: `timeline_of(node.runtime)`.
    """

    def __init__(self, clock: Clock, number: int, core_clock_mhz: int, tiles: int, turns: Turns) -> None:
        """Join the other nodes of the Trio run; `number` is that of the node, `turns` are those of all."""
        self.number: Final = number
        self.reference: Final = clock
        """The reference clock, of Trio's time."""
        self.core_clock_mhz: Final = core_clock_mhz
        self.is_virtual: Final = clock.is_virtual
        self.ahead: Final = AHEAD_TICKS if clock.is_virtual else AHEAD_TICKS_LIVE
        """Ticks that a core may be ahead of time."""
        self.late = 0
        """Turns that came `LATE_TICKS` after their tick, or later."""
        self.latest = 0
        """Ticks by which the latest turn came late."""
        self.running: Final = [0] * tiles
        """Cores of each tile that run: those in use that do not wait. Work on more threads adds to it."""
        self._turns = turns
        self._taken: Turn | None = None
        """The turn that is being done, up to where its task waits again."""
        self._present = 0
        self._at_work = AtWork()
        self.begins = False
        """Whether a task at the pins, or a callback, has begun its turn and not come to its next wait yet."""
        self.starting = 0
        """Cores whose task has not come to ask for its first turn yet."""
        self._origin_tick = round(Fraction(clock.origin) * TICKS_PER_SECOND)
        self._heap: list[Turn] = []
        self._requests = 0

    # Clocks and ticks.

    def tick_of(self, clock: int) -> int:
        """Return the tick at which a clock has come, rounded up."""
        return -(-clock * 100 // self.core_clock_mhz)

    def clock_at(self, tick: int) -> int:
        """Return the first clock that is not before a tick."""
        return -(-tick * self.core_clock_mhz // 100)

    def clocks(self, ticks: Fraction | int) -> int:
        """Return how many clocks some ticks last, rounded up."""
        return -int(-ticks * self.core_clock_mhz // 100)

    @property
    def ticks(self) -> int:
        """The tick to which the node has come: that of the turn that is being done, else the present one.

        A turn that is due and not done yet holds it: on a machine that is late it is before Trio's clock.
        """
        if self._taken is None:
            now, first, working = self.reference.ticks(), self.first, self._at_work.last_tick
            if first is not None and first.tick < now:
                now = first.tick
            if working is not None and working < now:
                now = working
            if now > self._present:
                self._present = now
        return self._present

    def now(self) -> int:
        """Return the clock of the running core; outside of any core, that of the present tick."""
        core = current_core()
        return core.clock if isinstance(core, TimedCore) else self.clock_at(self.ticks)

    @property
    def arrival_tick(self) -> int:
        """The tick of what a host does now: Trio's, to which the node may not have come on a late machine."""
        return max(self.ticks, self.reference.ticks())

    def arrival(self) -> int:
        """Return the clock of what the running core does, or a host: an answer takes its time from there."""
        core = current_core()
        return core.clock if isinstance(core, TimedCore) else self.clock_at(self.arrival_tick)

    # Charges.

    def slot(self, tile: int, other: int | None = None) -> int:
        """Return the clocks of an issue slot: at least five, and as many as cores run; at the slower tile."""
        running = self.running[tile]
        if other is not None and other != tile:
            running = max(running, self.running[other])
        return max(ISSUE_SLOTS, running)

    def charge(self, clocks: int) -> None:
        """Add clocks to the running core; outside of any core they go to nobody."""
        core = current_core()
        if isinstance(core, TimedCore):
            core.clock += clocks

    def charge_slots(self, slots: int, other: int | None = None) -> None:
        """Add issue slots to the running core, at the slower one of its tile and another."""
        core = current_core()
        if isinstance(core, TimedCore):
            core.clock += slots * self.slot(core.tile, other)

    # Which cores run. One that is interrupted does as its callback does.

    def core_waits(self, core: TimedCore) -> None:
        """Note that a core waits from its clock on."""
        core.waits, core.waits_since = True, core.clock
        if core.above is None:
            self.running[core.tile] -= 1

    def core_goes_on(self, core: TimedCore) -> None:
        """Note that a core runs on, now or in its turn."""
        core.waits = False
        if core.above is None:
            self.running[core.tile] += 1

    def callback_began(self, callback: TimedCore, core: TimedCore) -> None:
        """Note that a callback runs on a core, which counts as running."""
        if core.waits:
            self.running[core.tile] += 1
        core.above = callback

    def callback_ended(self, callback: TimedCore, core: TimedCore) -> None:
        """Let a core go on, or wait, from where its callback has come to."""
        core.above = None
        core.clock = max(core.clock, callback.clock)
        if core.waits_since is not None:
            core.waits_since = max(core.waits_since, callback.clock)
        if core.waits:
            self.running[core.tile] -= 1

    # Waits of the running task.

    @types.coroutine
    def settle(self) -> Generator[Any, Any, None]:
        """Wait for the tick of the running core's clock, which still runs. Nothing cancels that."""
        core = current_core()
        if not isinstance(core, TimedCore):
            return
        if not self.is_virtual and self._at_work.takes_late(current_task()):
            core.clock = max(core.clock, self.clock_at(self.ticks))
        tick = self.tick_of(core.clock)
        if tick > self.ticks and not self._goes_on(tick):
            yield from self._sleep(core.clock, core, cancellable=False)

    @types.coroutine
    def settle_far(self) -> Generator[Any, Any, None]:
        """`settle`, where the running core is so far ahead, or may be interrupted, that it has to."""
        core = current_core()
        if not isinstance(core, TimedCore):
            return
        ahead = 1 if core.settles else self.ahead
        tick = self.tick_of(core.clock)
        if tick >= self.ticks + ahead and not self._goes_on(tick):
            yield from self._sleep(core.clock, core, cancellable=False)

    def _goes_on(self, tick: int) -> bool:
        """Let the core that has the turn go on at a later tick, if that is past and nobody is before it."""
        if self.is_virtual or self._taken is None or self.reference.ticks() < tick:
            return False
        first = self.first
        if (first is not None and first.tick <= tick) or not self._at_work.is_alone(current_task()):
            return False
        self._present = tick
        return True

    @types.coroutine
    def settle_outside(self, clock: int) -> Generator[Any, Any, None]:
        """Wait, as a task outside of any core, for the tick of a clock; nothing cancels that."""
        if self.tick_of(clock) > self.ticks:
            yield from self._sleep(clock, None, cancellable=False)

    @types.coroutine
    def wait_until(self, clock: int) -> Generator[Any, Any, None]:
        """Wait until a clock, for something outside of the cores: a wire, a chip. The core does not run.

        The core's clock becomes the later of both. Outside of any core: wait for that tick.
        """
        core = current_core()
        if not isinstance(core, TimedCore):
            yield from self._sleep(clock, None, cancellable=True)
            return
        clock = max(clock, core.clock)
        waits_alone = core.task is current_task()
        if waits_alone:
            self.core_waits(core)
        try:
            yield from self._sleep(clock, core, cancellable=True)
        finally:
            if waits_alone:
                self.core_goes_on(core)
                core.waits_since = None
        core.clock = max(core.clock, clock)

    @types.coroutine
    def wait_turn(self, core: TimedCore) -> Generator[Any, Any, None]:
        """Wait for the turn of a core that starts, as its task."""
        yield from self._sleep(core.clock, core, cancellable=True)

    @types.coroutine
    def _sleep(self, clock: int, core: Core | None, *, cancellable: bool) -> Generator[Any, Any, None]:
        task = current_task()

        def run_on() -> None:
            if core is not None:
                self.began(task)
            reschedule(task)

        turn = self.at(clock, run_on, core)

        def abort(_: object) -> Abort:
            if not cancellable:
                return Abort.FAILED
            turn.call_off()
            return Abort.SUCCEEDED

        self.waits(task)
        yield from wait_task_rescheduled(abort)  # noqa: ASYNC105 - a generator, as in `Waiter`

    # Who is at work: on a live clock turns are held for it.

    def began(self, task: Task) -> None:
        """Note that a task of a core runs on in its turn, up to where it `waits`."""
        if not self.is_virtual:
            self._at_work.began(task)

    def waits(self, task: Task) -> None:
        """Note that a task waits for its next turn, or ends."""
        if not self.is_virtual and self._at_work.ended(task):
            self._turns.changed()

    def hold(self) -> None:
        """Have no turn of a later tick be given before the running task, outside of any core, waits again."""
        if not self.is_virtual:
            self._at_work.began(current_task(), self.ticks + 1)

    def promise(self, clock: int) -> None:
        """Let others have their turns up to a clock, before which the running core does nothing."""
        if self._at_work.promise(current_task(), self.tick_of(clock)):
            self._turns.changed()

    def turn_ended(self) -> None:
        """Note that who had the last turn waits again, or is at work for longer."""
        if self.is_virtual or not self._at_work.has_turn:
            self._taken = None

    @property
    def is_held(self) -> bool:
        """Return whether the turn that comes next is held, as a core is at work."""
        first = self.first
        return first is not None and self._at_work.holds(first.tick)

    @property
    def held_until(self) -> float:
        """Trio's time up to which it is held."""
        return self._at_work.expiry

    # Turns.

    def at(
        self,
        clock: int,
        act: Callable[[], object],
        core: Core | None = None,
        port: tuple[int, int] = (OUTSIDE, 0),
        *,
        before: bool = False,
    ) -> Turn:
        """Have something done at the tick of a clock, which may be now, in turn with what others do then.

        `act` does not wait and does not raise; it may wake one task. Its turn is that of `core`, or else of
        `port`: a number in place of the tile, below 0 to come before all cores, and one in place of the core.
        With `before` it comes before what else the core does at that tick.
        """
        tile, number = port if core is None else (core.tile, core.number)
        self._requests += 1
        request = -self._requests if before else self._requests
        turn = Turn((self.tick_of(clock), tile, number, request), act)
        heapq.heappush(self._heap, turn)
        if self._heap[0] is turn:
            self._turns.changed()
        return turn

    @property
    def first(self) -> Turn | None:
        """The turn that comes next."""
        heap = self._heap
        while heap and heap[0].act is None:
            heapq.heappop(heap)
        return heap[0] if heap else None

    @property
    def is_at_rest(self) -> bool:
        """Return whether no turn is due now, of any node of the Trio run: all cores wait."""
        return self._turns.is_at_rest

    def take(self, turn: Turn) -> None:
        """Do what is first."""
        heapq.heappop(self._heap)
        late = self.reference.ticks() - turn.tick
        if late > LATE_TICKS:
            self.late += 1
        self.latest = max(self.latest, late)
        if turn.act is not None:
            self._taken = turn
            self._present = max(self._present, turn.tick)
            turn.act()

    def trio_tick(self, turn: Turn) -> int:
        """Return the tick of a turn on Trio's clock, to compare nodes that started at different times."""
        return self._origin_tick + turn.tick

    def leave(self) -> None:
        """Forget all turns: the node has ended."""
        self._heap.clear()
        self._taken = None  # it holds the task of the turn, and that the node
        self._turns.leave(self)
