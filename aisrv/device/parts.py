"""The parts that the tasks of a device share besides channels: pins, memories, chips and logs.

What a board does not have is not imported.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from msgspec import Struct, field

from aisrv.device.part_factory import PartFactory, PlainParts
from aisrv.engine.debug_log import DebugLog
from aisrv.protocol.commands import Spec
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from aisrv.values.addons import load
from phy.spi.shared_memory import SharedMemory
from phy.usb.data_task import IgnoredPackets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from rich.console import RenderableType
    from rich.text import Text

    from aisrv.board import Board, Part, SensorSpec, Task
    from aisrv.device.ends import Ends
    from aisrv.device.user_commands import UserCommands
    from aisrv.device.user_task import LoadedTask
    from aisrv.engine.state import AIEngine
    from aisrv.inference.engine import Runners
    from aisrv.sensors.acquire import Exposure, SensorModel
    from aisrv.sensors.image.frame import FrameSource
    from aisrv.xcore.node import Node
    from flash_server.chip.chip import FlashChip
    from flash_server.chip.storage import Storage
    from flash_server.server.service import FlashService
    from phy.spi.bus import SpiBus
    from phy.usb.bus import UsbBus


Run: TypeAlias = Callable[[], Awaitable[object]]
"""Runs a task until it ends or is cancelled."""


class DeviceParts(Struct, frozen=True, kw_only=True):
    """The parts of a device that its tasks are given; each task takes those that it works with."""

    board: Board
    node: Node
    runner: Runners
    """Where models execute."""
    hardware: Spec
    """The spec words that no model changes."""
    usb: UsbBus
    ignored: IgnoredPackets
    """Counts the packets over USB that are not commands."""
    spi: SpiBus | None
    spi_memory: SharedMemory
    """What the two SPI tasks share."""
    chips: Sequence[FlashChip]
    flash_services: Sequence[FlashService]
    """What the server of each chip works on."""
    source: FrameSource | None
    """Where the sensor's frames come from; None where the board has no sensor."""
    registers: SensorModel | None
    """The registers of the sensor; None where the board has none."""
    exposure: Exposure | None
    """What the two tasks of the sensor share."""
    logs: Sequence[DebugLog]
    """The debug log of each engine."""
    factory: PartFactory
    """Makes the parts in which time passes on the chip."""
    user_tasks: Sequence[LoadedTask]
    """The functions of the user's own tasks, as the board lists these."""
    user_commands: Sequence[UserCommands] = ()
    """The user's own commands, by engine; empty where no engine has any."""
    running: Sequence[RunningPart] = ()
    """The parts that add-ons bring, as the board lists these."""
    engines: list[AIEngine] = field(default_factory=list)
    """The engines by number, each from when its task is created."""

    @classmethod
    def of(
        cls,
        board: Board,
        node: Node,
        runner: Runners,
        storages: Sequence[Storage],
        user_tasks: Sequence[LoadedTask] = (),
        user_commands: Sequence[UserCommands] = (),
        source: FrameSource | None = None,
        factory: PartFactory | None = None,
        usb: UsbBus | None = None,
        running: Sequence[RunningPart] = (),
    ) -> Self:
        """Create the parts of a board: a storage for each flash chip, and the user's own tasks and commands.

        `source` takes the place of the sensor's, and `usb` that of the AI server's. Raises SourceError.
        """
        factory = factory or PlainParts()
        if board.sensor is None:
            source = None
        elif source is None:
            source = open_sensor(board, board.sensor)
        if source is not None:
            source = factory.source(source)
        logs = [DebugLog(logging.getLogger(f"aisrv.engine{n}")) for n in range(len(board.engines))]
        chips = list(map(factory.flash_chip, board.flashes, storages))
        return cls(
            board=board,
            node=node,
            runner=runner,
            hardware=Spec(
                tiles=board.tiles,
                internal_kib=board.internal_kib,
                flash_kib=board.flash_kib,
                external_kib=board.external_kib,
            ),
            usb=usb or factory.usb(aisrv_descriptors(board.serial)),
            ignored=IgnoredPackets("usb"),
            spi=None if board.spi is None else factory.spi(),
            spi_memory=SharedMemory(log=None if board.spi is None else logs[board.spi.engine]),
            chips=chips,
            flash_services=[_flash_service(board, number, chip, logs) for number, chip in enumerate(chips)],
            source=source,
            registers=None if source is None or board.sensor is None else _registers(board.sensor),
            exposure=None if source is None else _exposure(source),
            logs=logs,
            factory=factory,
            user_tasks=user_tasks,
            user_commands=user_commands,
            running=running,
        )


class PartStatus(Protocol):
    """The state of a part at a moment: a dataclass, which draws itself."""

    def lines(self) -> Iterable[Text]:
        """Draw it in few lines."""

    def draw(self, ascii_only: bool) -> Iterable[RenderableType]:
        """Draw all of it."""


class RunningPart:
    """What a part of a board is on a device."""

    @classmethod
    def open(cls, spec: Any) -> AbstractContextManager[RunningPart]:  # noqa: ANN401 - the part's own class
        """Read its files before the device starts; close them after it. Raises BoardError."""
        raise NotImplementedError

    def beside(self, parts: DeviceParts) -> AbstractAsyncContextManager[None]:
        """Run what it has beside the tasks of the device, for as long as the block lasts. Raises OSError."""
        _ = parts
        return nullcontext()

    def status(self) -> PartStatus | None:
        """Return its state now, for whoever watches the device; None where there is nothing to show."""
        return None

    def create(self, parts: DeviceParts, task: Task, ends: Ends) -> Run:
        """Create one of its tasks, with the ends that its plan gives it."""
        raise NotImplementedError


def open_part(part: Part) -> AbstractContextManager[RunningPart]:
    """Open a part of a board."""
    kind: type[RunningPart] = load(part.opens)
    return kind.open(part)


def _flash_service(board: Board, number: int, chip: FlashChip, logs: Sequence[DebugLog]) -> FlashService:
    from flash_server.chip.partitions import divide
    from flash_server.server.service import FlashService

    writes = [log.write for log, spec in zip(logs, board.engines, strict=True) if spec.flash == number]

    def log(line: str) -> None:
        for write in writes:
            write(line)

    return FlashService(divide(chip, board.flashes[number].boot_bytes), log)


def _registers(spec: SensorSpec) -> SensorModel:
    from aisrv.sensors.registers import SENSOR_MODELS

    return SENSOR_MODELS[spec.registers]()


def _exposure(source: FrameSource) -> Exposure:
    from aisrv.sensors.acquire import Exposure

    return Exposure(source)


def open_sensor(board: Board, spec: SensorSpec) -> FrameSource:
    """Open the source of a board's sensor. Raises SourceError."""
    from aisrv.sensors.image.frame import SourceError
    from aisrv.sensors.sources.opening import open_source
    from aisrv.sensors.sources.spec import SourceSpec

    rate = None if spec.rate is None else f"{spec.rate:.12g}"
    size = f"{spec.width}x{spec.height}"
    folder = board.folder or Path()
    try:
        text = SourceSpec.from_text(spec.source)
        return open_source(text.with_defaults(size=size, encoding=spec.encoding, rate=rate), folder)
    except SourceError as error:
        place = board.place("sensor", "source")
        raise SourceError(f"{place}: {error}" if place else str(error)) from error
