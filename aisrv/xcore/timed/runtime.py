"""The runtime of a node in device time: cores start, wait and run on by its timeline."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVarTuple

import trio
from trio.lowlevel import current_task

from aisrv.xcore.clock import Clock
from aisrv.xcore.core import Core, current_core
from aisrv.xcore.runtime import CalledOff, CoreOwner, OnTrap, Runtime
from aisrv.xcore.switch import Switch
from aisrv.xcore.tick_waiter import TickWaiter
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.device_costs import DEFAULT_CASE_SLOTS, JOB_SLOTS, RESOURCE_SLOTS
from aisrv.xcore.timed.parking import TimedEventParking, TimedParking
from aisrv.xcore.timed.present_clock import PresentClock
from aisrv.xcore.timed.tick_waiter import TimedTickWaiter
from aisrv.xcore.timed.tile_links import TileLinks
from aisrv.xcore.timed.timeline import Timeline
from aisrv.xcore.timed.turns import turns_of_run

Ts = TypeVarTuple("Ts")


class TimedRuntime(Runtime):
    """A runtime with a timeline."""

    def __init__(
        self,
        nursery: trio.Nursery,
        switch: Switch[Any],
        *,
        number: int,
        tiles: int,
        name: str,
        on_trap: OnTrap,
        seed: int | None,
        core_clock_mhz: int,
    ) -> None:
        turns = turns_of_run()
        timeline = Timeline(Clock(), number, core_clock_mhz, tiles, turns)
        super().__init__(
            nursery,
            switch,
            number=number,
            tiles=tiles,
            name=name,
            on_trap=on_trap,
            seed=number if seed is None else seed,  # so that selects are repeatable, too
            core_clock_mhz=core_clock_mhz,
            clock=PresentClock(timeline),
        )
        self.timeline: Final = timeline
        turns.join(self.timeline)
        self.parking = partial(TimedParking, timeline=self.timeline)
        self.event_parking = partial(TimedEventParking, timeline=self.timeline)
        self.links: Final = TileLinks()
        """The routes between the tiles."""

    def tick_of(self, core: Core | None) -> int:
        """Return the tick at which a core is, or a task outside of any core."""
        return self.timeline.tick_of(core.clock) if isinstance(core, TimedCore) else self.timeline.ticks

    def run_core(
        self, core: Core, owner: CoreOwner, function: Callable[[*Ts], Awaitable[object]], *args: *Ts
    ) -> None:
        """Start the task of a core in its turn, at the clock of the core that starts it."""
        assert isinstance(core, TimedCore)  # noqa: S101 - for the type checker
        self.timeline.charge_slots(JOB_SLOTS)
        core.clock = self.timeline.now()

        self.timeline.starting += 1

        async def begin() -> None:
            self.timeline.starting -= 1
            await self.timeline.wait_turn(core)
            try:
                await function(*args)
                await self.timeline.settle()
            finally:
                self.timeline.waits(current_task())

        super().run_core(core, owner, begin)

    def start_task(
        self, nursery: trio.Nursery, function: Callable[[*Ts], Awaitable[object]], *args: *Ts
    ) -> None:
        """Start a further task of the running core, which begins in its turn."""
        core = current_core()
        assert core is not None  # noqa: S101 - for the type checker
        place: TimedParking[None] = TimedParking(self, self.timeline)
        may_begin = False

        def let_begin() -> None:
            nonlocal may_begin
            may_begin = True
            place.wake(None)

        async def begin() -> None:
            if not may_begin:
                await place.park("begin", core, timed=True)
            try:
                await function(*args)
            finally:
                self.timeline.waits(current_task())

        self.timeline.waits(current_task())  # it may wait in the nursery, which has no turns
        nursery.start_soon(begin, name=function)
        self.timeline.at(self.timeline.now(), let_begin, core)

    async def begin_verb(self) -> None:
        """Take a slot, then wait for the core's tick, as others see what it does at a lock or in a select."""
        if current_core() is None:
            await super().begin_verb()
        self.timeline.charge_slots(RESOURCE_SLOTS)
        await self.timeline.settle()

    def at_tick(self, tick: int, act: Callable[[], object]) -> CalledOff:
        """Have something done at a tick, before what cores do then."""
        return self.timeline.at(self.timeline.clock_at(tick), act)

    def tick_waiter(self) -> TickWaiter:
        """Make a place where a task at the pins sleeps, and runs on in its turn."""
        return TimedTickWaiter(self.timeline)

    def hold(self) -> None:
        """Let the node come to no later tick before the running task sleeps in its `TickWaiter`."""
        self.timeline.hold()

    async def let_others_run(self) -> None:
        """Wait for the core's tick; outside of any core let others run."""
        if current_core() is None:
            await super().let_others_run()
        await self.timeline.settle()

    async def default_case(self) -> None:
        """Take the time of a default case; outside of any core let others run."""
        if current_core() is None:
            await super().default_case()
        self.timeline.charge_slots(DEFAULT_CASE_SLOTS)
        await self.timeline.settle()

    async def yield_to_others(self) -> None:
        """Count anew: verbs of cores take time by themselves. Outside of any core let others run."""
        if current_core() is None:
            await super().yield_to_others()
        else:
            self.verbs_at_once = 0

    def verb_parks(self) -> None:
        """Count no verbs: each takes time."""

    def core_taken(self, core: Core) -> None:
        """Count a core as running: one that has no task here, too, as XUD."""
        self.timeline.running[core.tile] += 1

    def core_given_back(self, core: Core) -> None:
        """Count a core out."""
        self.timeline.running[core.tile] -= 1

    def end(self) -> None:
        """Note that nothing runs any more, and give no more turns."""
        super().end()
        self.timeline.leave()

    @property
    def _deadlocked(self) -> bool:
        return super()._deadlocked and self.timeline.first is None
