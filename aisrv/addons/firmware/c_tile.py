"""The cores of a tile whose program is in C: each a task that performs the verbs of its coroutine.

Source: "Firmware in C on the substrate", The design.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio

from aisrv.addons.firmware.callbacks import Callbacks
from aisrv.addons.firmware.code_places import in_lines, lines_of
from aisrv.addons.firmware.exchange import Exchange, Lost
from aisrv.addons.firmware.host_data import HostData
from aisrv.addons.firmware.pin_polls import PinPolls
from aisrv.addons.firmware.program_resources import ProgramResources
from aisrv.addons.firmware.records import (
    CALLBACKS,
    BusyReport,
    Place,
    RecordError,
    Request,
    Verb,
    interrupt,
    result,
    start,
)
from aisrv.addons.firmware.spins import Spin
from aisrv.addons.firmware.tile_process import TileProcess
from aisrv.addons.firmware.usb_bus import FirmwareBus
from aisrv.addons.firmware.verbs import VERBS
from aisrv.addons.firmware.verbs.program_tile import Answer, Handler, ProgramTile, UsbSide
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.core import Core, current_core
from aisrv.xcore.interrupts.api import interrupts_of
from aisrv.xcore.interrupts.core import CoreInterrupts
from aisrv.xcore.lib_xcore import Join
from aisrv.xcore.ports.port import Port
from aisrv.xcore.tile import Tile
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Trap, TrapKind

logger = logging.getLogger(__name__)

_RETURN: Final = Verb.RETURN
_LET_TIME_PASS: Final = Verb.LET_TIME_PASS
_SPIN: Final = Verb.SPIN
_SETUP_INTERRUPT: Final = Verb.SETUP_INTERRUPT
_TICKS_TO_DRIVE: Final = 2
"""To the next edge of the reference clock, and the tick that follows it."""


class _Coroutine:
    """One of the program's coroutines, which a core performs the verbs of."""

    def __init__(self, number: int, name: str) -> None:
        self.number: Final = number
        self.name: Final = name
        self.request: Request | None = None
        self.posted: list[Request] = []
        self.returned: int | None = None
        self.scope = trio.CancelScope()
        self.core: Core | None = None
        self.own_timer: Timer | None = None
        self.callbacks: Callbacks | None = None
        self.spin: Spin | None = None

    @property
    def is_uninterruptible(self) -> bool:
        """Return whether its core takes no interrupts yet; a callback sets up those of the core below."""
        return self.callbacks is None and self.number < CALLBACKS

    @property
    def when(self) -> str:
        """How messages say that a callback ran."""
        return "isr " if self.number >= CALLBACKS else ""


class CTile:
    """What a tile is to its program in C: cores by the numbers of their coroutines."""

    def __init__(self, tile: Tile, process: TileProcess, usb: FirmwareBus | None = None) -> None:
        """Give a tile the process of its program, which is the device on a USB bus where one is given."""
        self.tile: Final = tile
        self.process: Final = process
        self.usb: Final = None if usb is None else UsbSide(usb)
        self.resources: Final = ProgramResources(tile)
        """What the program knows by an id."""
        self.joins: Final[dict[int, Join]] = {}
        self.ended: Trap | None = None
        """What all cores of the tile meet when the program is gone."""
        self.code: int | None = None
        """Exit code of the program where it has ended by itself."""
        self.is_announced = False
        """Whether the program said that it ends so."""
        self.on_exit: Callable[[], None] | None = None
        """Called where the program has ended by `exit`, before its cores trap for that."""
        self.returned: Final[list[int]] = []
        """What the functions returned that were started from here."""
        self.host_data = HostData()
        """What the host sends over xscope."""
        self._coroutines: dict[int, _Coroutine] = {}
        self._is_over = False  # whether the run ends, and its cores with it
        self._exchange: Final = Exchange(
            process,
            is_live=not tile.clock.is_virtual,
            others_run=self._others_run,
            take=self._take,
            lose=self._halt_for,
        )
        self._polls = PinPolls(tile.runtime)
        self._has_turns = isinstance(tile.runtime, TimedRuntime)  # cores have results one at a time then
        process.on_busy = self._report_busy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.close()

    async def run(self, slot: int, function: int, name: str, arguments: Sequence[int | ChanEnd] = ()) -> int:
        """Run a function of the program on the calling core, and return what it returns.

        `slot`, 0 to 7, is free for it alone; `function` is its number in the program's table. An end among
        the arguments becomes one of the program's.
        """
        words = []
        for argument in arguments:
            if isinstance(argument, ChanEnd):
                self.resources.adopt(argument)
                words.append((argument.resource_id, argument.destination or 0))
            else:
                words.append((argument & 0xFFFFFFFF, 0))
        coroutine = self._coroutines[slot] = _Coroutine(slot, name)
        await self._serve(coroutine, start(slot, function, self._tick(), words, _core_number()))
        value = coroutine.returned or 0
        self.returned.append(value)
        return value

    def start_job(self, number: int, name: str) -> None:
        """Run a job of the program on a core of its own that nobody joins."""
        self.tile.start(self._job(number, name), name=name)

    def fork(self, jobs: Sequence[tuple[int, str]]) -> int:
        """Start jobs, by the numbers and names of their coroutines, and return the number of their join."""
        self.tile.check_cores(len(jobs))
        number = next(n for n in range(1, 256) if n not in self.joins)
        join = self.joins[number] = Join(self.tile)
        for each, name in jobs:
            join.start(self._job(each, name))
        return number

    def _job(self, number: int, name: str) -> Callable[[], Awaitable[None]]:
        coroutine = self._coroutines[number] = _Coroutine(number, name)

        async def job() -> None:
            await self._serve(coroutine, result(number, _core_number(), self._tick()))

        job.__name__ = name
        return job

    @property
    def file(self) -> Path:
        """The program."""
        return self.process.program

    # Time.

    def own_timer(self, number: int) -> Timer:
        """Return the timer that XC's delays of a coroutine use; it takes none of the tile's program."""
        coroutine = self._coroutines[number]
        if coroutine.own_timer is None:
            coroutine.own_timer = self.tile.allocate_timer()
        return coroutine.own_timer

    async def poll(self) -> None:
        """Let time pass for a core that reads the clock in a loop, as a select's default case does."""
        runtime = self.tile.runtime
        await runtime.default_case()
        core, clock = current_core(), runtime.clock
        if self._has_turns:
            return  # the case has taken its time
        if core is not None and clock.is_virtual and (step := core.poll.step(clock.ticks())):
            await trio.sleep_until(clock.deadline(clock.ticks() + step))

    async def let_drive(self) -> None:
        """Let an output of this tick be on its pins, before the port is taken away, as code takes no time."""
        if not self._has_turns:
            clock = self.tile.runtime.clock
            await trio.sleep_until(clock.deadline(clock.ticks() + _TICKS_TO_DRIVE))

    async def poll_pins(self, port: Port) -> None:
        """Let time pass, until the pins change, for a core that looks at a port in a loop."""
        if not self._has_turns:  # else each look takes its time
            await self._polls.look(port)

    async def spin(self, request: Request) -> None:
        """Sleep as a core of the program in a loop, until it has left that, or looks at other memory."""
        coroutine = self._coroutines[request.core]
        if coroutine.request is not None:
            return  # it has, while a callback ran before
        if coroutine.spin is None:
            coroutine.spin = Spin(self.tile.runtime, self.file, partial(self._others, coroutine))
        await coroutine.spin.wait(Place.from_bytes(request.data).frames)

    # Cores.

    async def _serve(self, coroutine: _Coroutine, begin: bytes) -> None:
        coroutine.core = current_core()
        with coroutine.scope:
            try:
                await self._exchange.give(begin)
                await self._perform_verbs(coroutine)
                if coroutine.request is not None:
                    interrupts = self._interrupts(coroutine)
                    await interrupts.within(self._perform_verbs(coroutine))
            finally:
                if coroutine.own_timer is not None:
                    coroutine.own_timer.free()
                if coroutine.returned is not None:
                    self._coroutines.pop(coroutine.number)
        if self.ended is not None and coroutine.returned is None and not self._is_over:
            raise Trap(self.ended.kind, self.ended.reason)

    async def _perform_verbs(self, coroutine: _Coroutine) -> None:
        """Perform verbs until the function has returned, or sets up the first interrupt, which is left.

        Traps say the line of the program.
        """
        perform = VERBS.__getitem__ if coroutine.callbacks is None else self._interruptible(coroutine)
        tick_of, exchange = self.tile.runtime.tick_of, self._exchange
        performed: Request | None = None
        try:
            while True:
                while coroutine.posted:
                    performed = coroutine.posted.pop(0)
                    await perform(performed.verb)(self, performed)
                request = performed = coroutine.request
                if request is None:
                    return  # all cores of the tile end
                verb = request.verb
                if verb is _SETUP_INTERRUPT and coroutine.is_uninterruptible:
                    return
                coroutine.request = None
                if verb is _RETURN:
                    coroutine.returned = request.a
                    return
                value, data = await perform(verb)(self, request)
                if verb is _SPIN:
                    continue
                tick = tick_of(coroutine.core)
                answer = result(coroutine.number, value, tick, data, time_stands=verb is _LET_TIME_PASS)
                if len(self._coroutines) == 1 and not exchange.is_live:  # no other could go with it
                    exchange.give_alone(answer)
                else:
                    await exchange.give(answer)
        except Trap as trap:
            if performed is None or performed.verb is Verb.TRAP:
                raise
            lines = lines_of(self.file, self._where(coroutine))
            when = f"{coroutine.when}{'at or before ' if performed.is_posted else ''}"
            raise Trap(trap.kind, f"{trap.reason}{in_lines(lines, when)}", trap.place) from None

    # Interrupts.

    def _interruptible(self, coroutine: _Coroutine) -> Callable[[Verb], Handler]:
        """Return how verbs of a coroutine are performed that takes interrupts."""
        interrupts = self.callbacks_of(coroutine.number).interrupts

        async def perform(tile: ProgramTile, request: Request) -> Answer:
            return await interrupts.interruptible(VERBS[request.verb], tile, request)

        return lambda _verb: perform

    def callbacks_of(self, number: int) -> Callbacks:
        """Return the interrupts of a coroutine, also for a callback of it. Traps with ILLEGAL_RESOURCE."""
        callbacks = self._coroutines[number % CALLBACKS].callbacks
        if callbacks is None:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, "a core without callbacks enables interrupts")
        return callbacks

    def _interrupts(self, coroutine: _Coroutine) -> CoreInterrupts:
        """Make a coroutine interruptible, whose core performs its verbs."""
        core = current_core()
        assert core is not None  # noqa: S101 - for the type checker
        interrupts = interrupts_of(self.tile.runtime, core)
        coroutine.callbacks = Callbacks(interrupts, partial(self._run_callback, coroutine))
        return interrupts

    async def _run_callback(self, below: _Coroutine, callback: int, argument: int, name: str) -> None:
        number = below.number + CALLBACKS
        coroutine = self._coroutines[number] = _Coroutine(number, name)
        try:
            await self._serve(coroutine, interrupt(below.number, self._tick(), callback, argument))
        except Trap as trap:
            lines = lines_of(self.file, self._where(below))
            interrupted = f", which interrupted {lines[0]}" if lines else ""
            raise Trap(trap.kind, f"{trap.reason}{interrupted}", trap.place) from None

    def _where(self, coroutine: _Coroutine) -> tuple[int, ...]:
        """Ask the program where a core is that sleeps in a verb."""
        return self._exchange.where(coroutine.number)

    # What the program asks for, and its end.

    def _tick(self) -> int:
        return self.tile.runtime.tick_of(current_core())

    def _others(self, coroutine: _Coroutine | None = None) -> list[Core]:
        """Return the cores of the program but that of a coroutine, or the running one."""
        me = current_core() if coroutine is None else coroutine.core
        return [c.core for c in self._coroutines.values() if c.core is not None and c.core is not me]

    def _others_run(self) -> bool:
        """Return whether another core of the program is about to have a result, too."""
        if self._has_turns:
            return False
        return any(core.verb is None and not core.has_ended for core in self._others())

    def _halt_for(self, error: Lost) -> None:
        """Halt all cores of the tile: its program is gone, or writes no requests."""
        if isinstance(error, RecordError):
            self.process.kill()
            self._end(Trap(TrapKind.ECALL, f"the program of tile {self.tile.number} is lost: {error}"))
            return
        if self.ended is None:
            self.code, self.is_announced = error.code, error.is_announced
        if self.on_exit is not None and error.code is not None:
            self._is_over = True
            self.on_exit()
        self._is_over = self._is_over or self.process.is_interrupted
        self._end(Trap(TrapKind.ECALL, f"the program of tile {self.tile.number} {error}"))

    def _take(self, requests: Sequence[Request]) -> None:
        """Give requests to the coroutines that ask. Raises RecordError."""
        for request in requests:
            coroutine = self._coroutines.get(request.core)
            if coroutine is None:
                raise RecordError(f"there is no coroutine {request.core}")
            if request.is_posted:
                coroutine.posted.append(request)
            else:
                coroutine.request = request
                if coroutine.spin is not None:
                    coroutine.spin.end()

    def lose(self, trap: Trap) -> None:
        """End the program and all its cores: its memory can't be trusted any more."""
        self.process.kill()
        self._end(Trap(trap.kind, f"lost with its tile: {trap.reason}"))

    def _report_busy(self, report: BusyReport) -> None:
        lines = in_lines(lines_of(self.file, report.frames))
        coroutine = self._coroutines.get(report.core)
        who = f"tile {self.tile.number}" if coroutine is None else str(coroutine.core)
        logger.warning("%s: %g s of CPU time without a verb%s", who, report.seconds, lines)

    def _end(self, trap: Trap) -> None:
        if self.ended is not None:
            return
        self.ended = trap
        for coroutine in self._coroutines.values():
            coroutine.scope.cancel()


def _core_number() -> int:
    """Return the number of the running logical core; 0 outside of any core."""
    core = current_core()
    return 0 if core is None else core.number
