"""A node: tiles that share a switch, a reference clock and a fate.

`open_node` runs a program of cores. It ends when all cores have; it fails with `Trap`, with a note that
names the core, or with `Deadlock` when no core can ever run again.
"""

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import Final, Literal, TypeVarTuple

import trio

from aisrv.xcore.channel import Channel
from aisrv.xcore.core import Core, Resource
from aisrv.xcore.switch import Switch
from aisrv.xcore.tile import Tile
from aisrv.xcore.timer import Clock
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Deadlock, Trap

logger = logging.getLogger(__name__)

Ts = TypeVarTuple("Ts")
OnTrap = Literal["raise", "halt"]


class Node:
    """One xcore.ai chip. Make it with `open_node`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        tiles: int,
        number: int,
        core_clock_mhz: int,
        on_trap: OnTrap,
        seed: int | None,
    ) -> None:
        self._nursery = nursery
        self._on_trap = on_trap
        self._live: list[Core] = []
        self._runnable = 0
        self._outsiders = 0
        self.number: Final = number
        self.core_clock_mhz: Final = core_clock_mhz
        self.switch: Final = Switch()
        self.clock: Final = Clock()
        self._seed = seed
        self.tracer: Tracer | None = None
        self.tiles: Final = tuple(Tile(self, tile) for tile in range(tiles))

    @cached_property
    def random(self) -> random.Random:
        """Chooses among ready events; made at its first use, as its state is larger than that of a core."""
        return random.Random(self._seed)  # noqa: S311 - keeps no secret

    def channel(self, a: Tile, b: Tile) -> Channel:
        """Allocate an end on each tile and make each the other's destination."""
        channel = Channel(a.allocate_chanend(), b.allocate_chanend())
        channel.a.setd(channel.b)
        channel.b.setd(channel.a)
        return channel

    def stop(self) -> None:
        """Stop all cores, as taking the power away does."""
        self._nursery.cancel_scope.cancel()

    @contextmanager
    def tracing(self, tracer: Tracer) -> Iterator[Tracer]:
        """Call the hooks of `tracer` within the block."""
        before, self.tracer = self.tracer, tracer
        try:
            yield tracer
        finally:
            self.tracer = before

    @contextmanager
    def outside_world(self) -> Iterator[None]:
        """Say that something other than the cores may wake them: no deadlock is reported within the block."""
        self._outsiders += 1
        try:
            yield
        finally:
            self._outsiders -= 1
            self._check_deadlock()

    # What tiles and parked cores tell the node.

    def run_core(self, core: Core, function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start the task of a core; called by `Tile.start`."""
        self._live.append(core)
        self._runnable += 1

        async def run() -> None:
            core.enter()
            if self.tracer is not None:
                self.tracer.core_started(core)
            try:
                await function(*args)
            except Trap as trap:
                self._trapped(core, trap)
            else:
                core.tile.release_core(core)
            finally:
                self._live.remove(core)
                self._runnable -= 1
                if self.tracer is not None:
                    self.tracer.core_ended(core)
                self._check_deadlock()

        self._nursery.start_soon(run, name=str(core))

    def core_parked(self, core: Core, verb: str, resource: Resource) -> None:
        """Count a core out until it is woken; with a timer running it still counts."""
        core.verb, core.waits_on = verb, resource
        self._runnable -= 1
        if self.tracer is not None:
            self.tracer.parked(core, verb, resource)
        if self._runnable == 0:
            self._check_deadlock()

    def core_woken(self, core: Core) -> None:
        """Count a core in again."""
        core.verb, core.waits_on = None, None
        self._runnable += 1
        if self.tracer is not None:
            self.tracer.woken(core)

    def report(self) -> str:
        """Say for each live core what it waits for, one line each."""
        return "\n".join(
            f"  {core}: {core.verb} on {core.waits_on.name if core.waits_on else 'nothing'}"
            if core.verb
            else f"  {core}: running"
            for core in sorted(self._live, key=lambda core: (core.tile.number, core.number))
        )

    @property
    def _deadlocked(self) -> bool:
        return self._runnable == 0 and bool(self._live) and not self._outsiders

    def _check_deadlock(self) -> None:
        if self._deadlocked:
            self._nursery.start_soon(self._fail)

    async def _fail(self) -> None:
        """Raise Deadlock, unless another error ends the node first or a core parked only to be cancelled."""
        if self._deadlocked:
            raise Deadlock(f"every core is parked for ever:\n{self.report()}")

    def _trapped(self, core: Core, trap: Trap) -> None:
        if self.tracer is not None:
            self.tracer.core_trapped(core, trap)
        note = f"{core} trapped at tick {self.clock.ticks()}"
        if self._on_trap == "raise":
            trap.add_note(note)
            raise trap
        logger.error("%s: %s; the core is halted", note, trap)


@asynccontextmanager
async def open_node(
    *,
    tiles: int = 2,
    number: int = 0,
    core_clock_mhz: int = 600,
    on_trap: OnTrap = "raise",
    seed: int | None = None,
) -> AsyncIterator[Node]:
    """Open a node; the block may start cores and use channel ends itself, as the outside world.

    After the block the cores run on until all have ended. `seed` makes the choice among ready events
    repeatable. `on_trap="halt"` stops only the core that trapped, as silicon does.
    """
    async with trio.open_nursery() as nursery:
        node = Node(
            nursery,
            tiles=tiles,
            number=number,
            core_clock_mhz=core_clock_mhz,
            on_trap=on_trap,
            seed=seed,
        )
        with node.outside_world():
            yield node
