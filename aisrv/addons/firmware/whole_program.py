"""Whole programs in C on a node: for each tile its main, until all have returned."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio
from msgspec import Struct
from trio.testing import MockClock

from aisrv.addons.firmware.c_tile import CTile
from aisrv.addons.firmware.compiler import mains
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.host_data import HostData
from aisrv.addons.firmware.tile_process import ProcessSettings, TileProcess
from aisrv.addons.firmware.verbs.cores import CpuLimitTrap
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.probes import Probe
from aisrv.xcore.resource_classes import PLAIN
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.trace import Tracer

if TYPE_CHECKING:
    from aisrv.xcore.runtime import OnTrap

_PROCESSOR: Final = 36
"""Place of the processor among the fields of a thread's `stat` behind its name: proc(5)."""
TRAPPED: Final = 1
"""Exit code of a run in which any core trapped and no program gave one of its own."""


class RunSettings(Struct, frozen=True):
    """How whole programs run."""

    processes: Mapping[int, ProcessSettings] = {}
    """Settings of the tiles' processes; none are the usual ones."""
    seed: int = 0
    """Decides on the order of what is ready at once."""
    is_live: bool = False
    """Whether time is that of this machine; else it passes only while all cores wait."""
    stops_at_trap: bool = False
    """Whether a trap ends the run; else it halts its core alone, as on the chip."""
    has_checkers: bool = False
    """Whether checkers judge: then codes that programs give, and cores that are halted at the limit of CPU
    time, are no failures; a lost program and any other trap are."""
    takes_chip_time: bool = False
    """Whether verbs take the time that they take on the chip."""
    probes: tuple[Probe, ...] | None = None
    """Those of a config file of xscope; None without one, where programs register theirs."""
    host_data: bytes = b""
    """What the host sends to the program that connects a channel end for it."""


OpenTracers = Callable[[], AbstractAsyncContextManager[Sequence[Tracer]]]
"""Opens the tracers of a run, in its Trio task."""


@asynccontextmanager
async def no_tracers() -> AsyncIterator[Sequence[Tracer]]:
    """Trace nothing."""
    yield ()


class Outside(Protocol):
    """A task beside the cores, such as one on pins. It is cancelled when all cores have ended."""

    async def __call__(self, node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        """Run; the cores start when this says that it has."""


def run_whole_programs(
    programs: Mapping[int, Path],
    settings: RunSettings,
    open_tracers: OpenTracers = no_tracers,
    outside: Sequence[Outside] = (),
) -> int:
    """Run the programs of tiles, and return the exit code: that of `exit`, or of the first main that has one.

    Each tile's program has a main, or a `main_tileN`, which gets its end of a channel between the tiles. What
    `open_tracers` opens hears of the node from its start; tasks of `outside` start before them.
    Raises FirmwareError where one has neither; Deadlock; and Trap where traps stop the run.
    """
    clock = None if settings.is_live else MockClock(autojump_threshold=0)
    try:
        with _repeatable(settings.seed), nullcontext() if settings.is_live else on_one_processor():
            return trio.run(_run, programs, settings, open_tracers, outside, clock=clock)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """Have Trio wake tasks in an order that the seed decides on: it shuffles them."""
    run: Any = sys.modules["trio._core._run"]  # private names, for want of public ones
    before = run._ALLOW_DETERMINISTIC_SCHEDULING
    run._ALLOW_DETERMINISTIC_SCHEDULING = True
    run._r.seed(seed)
    try:
        yield
    finally:
        run._ALLOW_DETERMINISTIC_SCHEDULING = before


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep this thread, and what it starts, on the processor that it is on.

    Programs and simulator run in turns: to wake the other on another processor takes up to ten times as long.
    """
    allowed = os.sched_getaffinity(0)
    fields = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
    os.sched_setaffinity(0, {int(fields[_PROCESSOR])})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


async def _run(
    programs: Mapping[int, Path],
    settings: RunSettings,
    open_tracers: OpenTracers,
    outside: Sequence[Outside],
) -> int:
    on_trap: OnTrap = "raise" if settings.stops_at_trap else "halt"
    tiles: list[CTile] = []
    classes = TIMED if settings.takes_chip_time else PLAIN
    with ExitStack() as stack:
        async with (
            open_tracers() as tracers,
            _cancelled_at_end() as nursery,
            open_node(on_trap=on_trap, seed=settings.seed, classes=classes) as node,
        ):
            for task in outside:
                await nursery.start(task, node)
            for tracer in tracers:
                stack.enter_context(node.tracing(tracer))
            if settings.probes is not None:
                node.runtime.xscope.configure(settings.probes)
            host_data = HostData(settings.host_data, nursery)
            ends = dict(enumerate(node.channel(*node.tiles)))
            for number, program in programs.items():
                name, function = _main_of(program, number)
                process = stack.enter_context(TileProcess(program, number, settings.processes.get(number)))
                tile = CTile(node.tiles[number], process)
                tile.on_exit = node.stop
                tile.host_data = host_data
                tiles.append(tile)
                arguments = [ends[number]] if name != "main" else []
                main = partial(tile.run, 0, function, name, arguments)
                node.tiles[number].start(main, name=name)
    codes = [tile.code for tile in tiles if tile.code is not None]
    codes += [code for tile in tiles for code in tile.returned]
    if settings.has_checkers:
        codes = [tile.code or 0 for tile in tiles if not tile.is_announced]
    if any(codes):
        return next(filter(None, codes)) & 0xFF or TRAPPED  # of 256 no system sees more than 0
    traps = [core.trap for core in node.runtime.halted]
    if settings.has_checkers:
        traps = [trap for trap in traps if not isinstance(trap, CpuLimitTrap)]
    return TRAPPED if traps else 0


@asynccontextmanager
async def _cancelled_at_end() -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        yield nursery
        nursery.cancel_scope.cancel()


def _main_of(program: Path, tile: int) -> tuple[str, int]:
    """Return the name and number of the function that begins a tile's program. Raises FirmwareError."""
    found = mains(program)
    for name in (f"main_tile{tile}", "main"):
        if name in found:
            return name, found[name]
    raise FirmwareError(f"the program of tile {tile} has neither main nor main_tile{tile}")
