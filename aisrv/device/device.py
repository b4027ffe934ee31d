"""The composition root: builds a device from a board, and runs it."""

import functools
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from aisrv.board import Board, FlashSpec, Plan, plan_of
from aisrv.device.part_factory import PartFactory, PlainParts
from aisrv.device.parts import DeviceParts, RunningPart, open_part
from aisrv.device.wiring import Wiring, wire
from aisrv.inference.engine import Runner, Runners
from aisrv.inference.interpreter import LogSink
from aisrv.listeners.failures import Failures
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import set_command, set_large
from aisrv.protocol.engine_kind import EngineKind
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.deadlock_watch import DeadlockWatch
from aisrv.xcore.node import open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.runtime import OnTrap
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import XcoreError

if TYPE_CHECKING:
    from aisrv.device.user_commands import UserCommands
    from aisrv.device.user_task import LoadedTask
    from aisrv.sensors.image.frame import FrameSource
    from aisrv.xcore.probes import Probe
    from flash_server.chip.partitions import DataImage
    from flash_server.chip.storage import Storage
    from flash_server.client.cache import CacheCounters
    from flash_server.client.flash_channel import FlashChannel
    from flash_server.client.xip import XipWindow
    from flash_server.image.headers import Part
    from phy.usb.bus import UsbBus


logger = logging.getLogger(__name__)

P = TypeVar("P", bound=RunningPart)

CONNECT_SECONDS: Final = 5.0
"""Time that a USB device in C has to come onto the bus before a device is said to run without it."""


class ModelRefused(Exception):
    """A model that the device's own program set, and an engine refused; the text is its debug log."""


class Device:
    """A running device: its node and engines, its buses, and a channel of its own to each engine."""

    def __init__(self, parts: DeviceParts, wiring: Wiring) -> None:
        """Take the parts of a device whose tasks are started, and how they are joined."""
        program = wiring.program
        self.channels: Final = wiring.channels
        """The channel of each link of the board's plan, in its order."""
        self.exposure: Final = parts.exposure
        """The latest frame of the sensor; None where the board has none."""
        self.registers: Final = parts.registers
        """The registers of the sensor; None where the board has none."""
        self.source: Final = parts.source
        """Where the sensor's frames come from; None where the board has none."""
        self.board: Final = parts.board
        self.node: Final = parts.node
        self.engines: Final = tuple(parts.engines)
        self.usb: Final = parts.usb
        self.ignored: Final = parts.ignored
        """Counts the packets over USB that were no command."""
        self.spi: Final = parts.spi
        """The master's side of the SPI port; None where the board has none."""
        self.running: Final = tuple(parts.running)
        """The parts that add-ons bring, as the board lists these."""
        self.flashes: Final = tuple(parts.chips)
        """The flash chips, as a programmer on their pins sees them."""
        self.local: Final = program.all("engines")
        """Channel ends for an embedding program, a client of each engine by number."""
        self.loaders: Final = _flash_channels(program.all("loaders"))
        """For each flash chip a channel to its server that may write, for an embedding program."""
        self.time_account: Final = parts.factory.account
        """What its time was spent on; None without device time."""
        self.caches: Final[dict[tuple[int, Part], CacheCounters]] = {}
        """Counters of the last window on each segment that was opened, by engine and segment."""
        self._windows = _flash_channels(program.all("windows"))
        self._flash_services = parts.flash_services

    def part(self, kind: type[P]) -> P | None:
        """Return the running part of a class; None where the board has none."""
        return next((part for part in self.running if isinstance(part, kind)), None)

    def fail(self) -> None:
        """Leave all buses for good; for whoever stopped its tasks."""
        self.usb.fail()
        if self.spi is not None:
            self.spi.fail()

    async def open_window(self, engine: int = 0, part: "Part | None" = None) -> "XipWindow":
        """Open a window on a segment of an engine's flash image: XIP, or operators.

        One task at a time may use the windows of an engine. Raises WindowError where the board has no flash
        or the segment is absent, FlashReadError where there is no valid image.
        """
        from flash_server.client.cache import WindowError
        from flash_server.client.xip import open_window
        from flash_server.image.headers import Part

        if not self._windows:
            raise WindowError("the board has no flash: there is nothing to open a window on")
        window = await open_window(self._windows[engine], part or Part.XIP, self.board.engines[engine].cache)
        self.caches[engine, window.part] = window.counters
        return window

    def flash_image(self, chip: int = 0) -> "DataImage | None":
        """Return the headers that the server of a flash chip has read last; None where it found no image."""
        return self._flash_services[chip].found

    async def reload_flash(self, chip: int = 0) -> None:
        """Have the server of a flash chip read it again, as a programmer may have changed it.

        Where the device fails, before or meanwhile, nobody answers, and nothing is waited for.
        """

        async def until_failure() -> None:
            await self.usb.wait_failed()
            waiting.cancel_scope.cancel()

        async with trio.open_nursery() as waiting:
            waiting.start_soon(until_failure)
            await self.loaders[chip].reload()
            waiting.cancel_scope.cancel()

    async def boot(self) -> None:
        """Load the models that engines have in flash; why one cannot be loaded is in the debug log."""
        for number, engine in enumerate(self.board.engines):
            if engine.boot is not None:
                await set_command(self.local[number], engine.boot)

    async def load_model(
        self, model: bytes, *, engine: int = 0, command: Command = Command.SET_MODEL_ARENA
    ) -> None:
        """Set the model of an engine over its local channel; raises ModelRefused with the reason."""
        status = await set_large(self.local[engine], command, 0, model)
        if status is not Status.OKAY:
            text = bytes(self.engines[engine].log).rstrip(b"\0").decode(errors="replace")
            raise ModelRefused(f"engine {engine} answered {status!r}: {text.strip()}")


def isolated(log: LogSink, /, *, kind: EngineKind | None = None) -> Runner:
    """Create a runner in a process of its own; what that takes is loaded with the first model.

    `log` gets what interpreters print; `kind` is that of the engine.
    """
    from aisrv.inference.process import isolation

    return isolation.isolated(log, kind=kind)


@asynccontextmanager
async def open_device(
    board: Board | None = None,
    *,
    runner: Runners = isolated,
    source: "FrameSource | None" = None,
    on_trap: OnTrap = "raise",
    watch: DeadlockWatch | None = None,
    tracer: Tracer | None = None,
    device_time: bool | None = None,
) -> AsyncIterator[Device]:
    """Run a device for as long as the block lasts.

    Raises BoardError where a tile has too few cores or channel ends, or a task or command of the user's
    is not there, or the graph cannot run; StorageError where a chip's file cannot be opened,
    SourceError and OSError where what the sensor or the graph reads cannot. `source` takes the place of
    the one that the board names for its sensor.

    `runner` says where models execute, by default each in a process of its own. A device on virtual time
    needs `aisrv.inference.process.inline.inline`: a clock that jumps does not wait for a process.

    With `device_time` everything takes the time of the modeled chip, on Trio's clock; None is the board's
    setting. Answers stay the same.

    A trap, or any other exception of a core, ends the block with the error; with `on_trap="halt"` it is
    logged and stops its core alone, as on silicon. Devices may share `watch`, which tells of cores that only
    each other could wake. `tracer` hears of the node from its start.
    """
    board = board or Board()
    if device_time is not None:
        board = replace(board, device_time=device_time)
    classes, make_factory = _time_of(board)
    plan = _checked_plan(board)
    user_commands = _load_user_commands(board)
    device: Device | None = None
    try:
        with ExitStack() as files:
            probes = _load_probes(board)
            user_tasks = _load_user_tasks(board, plan, files)
            running = [files.enter_context(open_part(part)) for part in board.parts]
            storages = [files.enter_context(closing(_storage(flash))) for flash in board.flashes]
            async with open_node(
                tiles=board.tiles,
                name=board.serial or "",
                core_clock_mhz=board.core_clock_mhz,
                on_trap=on_trap,
                classes=classes,
            ) as node:
                if tracer is not None:
                    files.enter_context(node.tracing(tracer))
                if probes is not None:
                    node.runtime.xscope.configure(probes)
                factory = make_factory(board, node.runtime)
                usb = None if board.usb_task is None else _usb_of_task(board, factory, user_tasks)
                parts = DeviceParts.of(
                    board,
                    node,
                    runner,
                    storages,
                    user_tasks,
                    user_commands,
                    source,
                    factory,
                    usb,
                    running,
                )
                async with AsyncExitStack() as beside:
                    for part in running:
                        await beside.enter_async_context(part.beside(parts))
                    device = Device(parts, wire(plan, parts))
                    node.watch_deadlocks(watch)
                    await device.boot()
                    if usb is not None:
                        await _wait_connected(usb, board)
                    yield device
                    node.stop()
    finally:
        with trio.CancelScope(shield=True):
            for engine in device.engines if device else ():
                await engine.inference.unload_model()


def _time_of(board: Board) -> tuple[ResourceClasses, Callable[[Board, Any], PartFactory]]:
    """Return the classes of a board's node, and what makes the factory of its parts."""
    if not board.device_time:
        return PLAIN, lambda _board, _runtime: PlainParts()
    from aisrv.device.timed_parts import TimedParts
    from aisrv.xcore.timed.classes import TIMED

    return TIMED, TimedParts


def _flash_channels(ends: Sequence[ChanEnd]) -> "tuple[FlashChannel, ...]":
    if not ends:
        return ()
    from flash_server.client.flash_channel import FlashChannel

    return tuple(map(FlashChannel, ends))


def _usb_of_task(board: Board, factory: PartFactory, tasks: "Sequence[LoadedTask]") -> "UsbBus":
    """Make the bus of a board on which a task of the user's own is the device."""
    (own,) = (task for task in tasks if task.spec.name == board.usb_task)
    return own.make_usb(factory)


async def _wait_connected(usb: "UsbBus", board: Board) -> None:
    """Wait until a task's USB device is on the bus, but not for longer than a host's user would."""
    with trio.move_on_after(CONNECT_SECONDS) as patience:
        await usb.wait_connected()
    if patience.cancelled_caught:
        logger.warning(
            "the task %r has not called XUD_Main within %g s; hosts see the USB device once it has",
            board.usb_task,
            CONNECT_SECONDS,
        )


def _load_probes(board: Board) -> "Sequence[Probe] | None":
    """Read the probes of a board's config file of xscope; None without one. Raises BoardFileError."""
    if board.xscope is None:
        return None
    from aisrv.board.xscope_file import read_xscope

    return read_xscope(board.xscope).probes


def _load_user_tasks(board: Board, plan: Plan, closing: ExitStack) -> "Sequence[LoadedTask]":
    if not board.tasks:
        return ()
    from aisrv.device.user_task import load_user_tasks

    return load_user_tasks(board, plan, closing)


def _load_user_commands(board: Board) -> "Sequence[UserCommands]":
    if all(engine.commands is None for engine in board.engines):
        return ()
    from aisrv.device.user_commands import load_user_commands

    return load_user_commands(board)


@functools.lru_cache(64)
def _checked_plan(board: Board) -> Plan:
    """Return the plan of a board: a test bench has many devices of one board."""
    plan = plan_of(board)
    plan.check()
    return plan


@asynccontextmanager
async def open_devices(
    boards: Sequence[Board],
    *,
    runner: Runners = isolated,
    on_trap: OnTrap = "raise",
    tracers: Sequence[Tracer] = (),
) -> AsyncIterator[tuple[Device, ...]]:
    """Run a device for each board, side by side, for as long as the block lasts.

    With `on_trap="raise"` a trap is raised at once, and any other exception ends one device: its hosts see it
    leave, the others go on, and DeviceFailed is raised after the block, in a group. When none is left the
    block is cancelled. What a device raises before it has started is raised at once. `tracers` are one for
    each device, or none.
    """
    left = len(boards)

    async def run(number: int, board: Board, *, task_status: trio.TaskStatus[Device]) -> None:
        nonlocal left
        device: Device | None = None
        try:
            tracer = tracers[number] if tracers else None
            async with open_device(
                board, runner=runner, on_trap=on_trap, watch=watch, tracer=tracer
            ) as device:
                task_status.started(device)
                await trio.sleep_forever()
        except* Exception as errors:
            if device is None or (on_trap == "raise" and errors.split(XcoreError)[0] is not None):
                raise
            failures.add(board.serial or f"device {number}", errors)
            device.fail()
            left -= 1
            if not left:
                nursery.cancel_scope.cancel()

    with Failures(logger) as failures:
        async with trio.open_nursery() as nursery:
            watch = DeadlockWatch(nursery)
            yield tuple([await nursery.start(run, number, board) for number, board in enumerate(boards)])
            nursery.cancel_scope.cancel()


def _storage(flash: FlashSpec) -> "Storage":
    from flash_server.chip.storage import FileStorage, MemoryStorage

    if flash.path is None:
        return MemoryStorage(flash.part.size)
    return FileStorage(flash.path, flash.part.size)
