"""A node: tiles that share a switch, a reference clock and a fate.

`open_node` runs a program of cores. It ends when all cores have; it fails with `Trap`, with a note that
names the core, or with `Deadlock` when no core can ever run again.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final

import trio
from msgspec import Struct

from aisrv.xcore.channels.channel import Channel
from aisrv.xcore.deadlock_watch import DeadlockWatch
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.runtime import OnTrap, Runtime
from aisrv.xcore.switch import Switch
from aisrv.xcore.tile import Tile
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import SizeError

MOST_TILES: Final = 2
MOST_NODES: Final = 1 << 14
"""As many as resource ids can tell apart."""


class NodeStatistics(Struct, frozen=True):
    """State of a node at one moment."""

    ticks: int
    """Ticks of 10 ns since it started."""
    cores_in_use: int
    """Cores that run a task, were halted by a trap, or are set aside."""
    cores_parked: int
    """Cores that wait for another core, in a verb, a select without a timer, or a lock."""
    cores_running: int
    """Cores whose task has not ended and is not parked."""
    chanends_in_use: int
    """Channel ends that are allocated, on all tiles."""
    tokens_queued: int
    """Tokens sent and not yet input, over all channel ends."""


class Node:
    """One xcore.ai chip. Make it with `open_node`.

    `tiles` is their number, `core_clock_mhz` the clock of the cores; `classes` are of what the tiles make.
    """

    def __init__(
        self, runtime: Runtime, *, tiles: int, core_clock_mhz: int, classes: ResourceClasses = PLAIN
    ) -> None:
        self.runtime: Final = runtime
        """The runtime, which all resources of the node share."""
        self.number: Final = runtime.number
        self.clock: Final = runtime.clock
        self.core_clock_mhz: Final = core_clock_mhz
        self.tiles: Final = tuple(Tile(runtime, tile, core_clock_mhz, classes) for tile in range(tiles))

    def channel(self, a: Tile, b: Tile) -> Channel:
        """Allocate an end on each tile and make each the other's destination.

        The tiles are `a` and `b`; they may be the same.
        """
        channel = Channel(a.allocate_chanend(), b.allocate_chanend())
        channel.a.join(channel.b)
        return channel

    def stop(self) -> None:
        """Stop all cores, as taking the power away does."""
        self.runtime.stop()

    def tracing(self, tracer: Tracer) -> AbstractContextManager[Tracer]:
        """Call the hooks of `tracer` within the block."""
        return self.runtime.tracing(tracer)

    def outside_world(self) -> AbstractContextManager[None]:
        """Report no deadlock within the block: something other than the cores may wake them."""
        return self.runtime.outside_world()

    def report(self) -> str:
        """Describe what each core waits for, a line each, and the cores that can never run again."""
        deadlock = self.runtime.find_deadlock()
        lines = [f"tick {self.clock.ticks()}:", self.runtime.report()]
        return "\n".join(lines if deadlock is None else [*lines, str(deadlock)])

    def watch_deadlocks(self, watch: DeadlockWatch | None = None) -> None:
        """Log cores that only each other could wake, once; they do not end the node.

        Nodes may share `watch`.
        """
        self.runtime.watch_deadlocks(watch)

    def statistics(self) -> NodeStatistics:
        """Count cores, channel ends and the tokens on their way."""
        live = self.runtime.cores
        parked = sum(core.verb is not None for core in live)
        return NodeStatistics(
            ticks=self.clock.ticks(),
            cores_in_use=sum(tile.cores_in_use for tile in self.tiles),
            cores_parked=parked,
            cores_running=len(live) - parked,
            chanends_in_use=sum(tile.chanends_in_use for tile in self.tiles),
            tokens_queued=sum(end.statistics().tokens_queued for end in self.runtime.switch),
        )


@asynccontextmanager
async def open_node(
    *,
    tiles: int = 2,
    number: int = 0,
    name: str = "",
    core_clock_mhz: int = 600,
    on_trap: OnTrap = "raise",
    seed: int | None = None,
    classes: ResourceClasses = PLAIN,
) -> AsyncIterator[Node]:
    """Open a node; the block may start cores and use channel ends itself, as the outside world.

    After the block the cores run on until all have ended. `seed` makes the choice among ready events
    repeatable. `on_trap="halt"` stops only the core that trapped, or raised any other exception, as silicon
    does. `name` begins what is logged, to tell several nodes apart. `tiles` is their number, 1 or 2;
    `number`, below 16384, is that of the node in resource ids; `core_clock_mhz` is the clock of the cores;
    `classes` are those of runtime, cores, channel ends, timers and locks.
    Raises SizeError for another number of tiles, or of the node.
    """
    if not 1 <= tiles <= MOST_TILES:
        raise SizeError(f"tiles of a node: {tiles} is not 1 or {MOST_TILES}")
    if not 0 <= number < MOST_NODES:
        raise SizeError(f"number of a node: {number} is not 0 to {MOST_NODES - 1}")
    switch: Switch[Any] = Switch()
    runtime: Runtime | None = None
    try:
        async with trio.open_nursery() as nursery:
            runtime = classes.runtime(
                nursery,
                switch,
                number=number,
                tiles=tiles,
                name=name,
                on_trap=on_trap,
                seed=seed,
                core_clock_mhz=core_clock_mhz,
            )
            runtime.make_interrupts = classes.interrupts
            node = Node(runtime, tiles=tiles, core_clock_mhz=core_clock_mhz, classes=classes)
            with runtime.outside_world():
                yield node
    finally:
        if runtime is not None:
            runtime.end()
        switch.clear()
