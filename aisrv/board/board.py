"""A board: a node with its engines, physical layers, flash chips and sensor, checked as a whole."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, Self, TypeVar

from aisrv.board.specs import (
    BOOT_COMMANDS,
    DEFAULT_SPI,
    ENCODINGS,
    LARGEST_EXTERNAL,
    LARGEST_FLASH,
    LARGEST_INTERNAL,
    LONGEST_SERIAL,
    REGISTER_MODELS,
    BoardError,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SensorSpec,
    SpiSpec,
    UsbProtocol,
)
from aisrv.board.tasks import Link, Servers, Task
from aisrv.board.user_tasks import TaskSpec, check_tasks
from aisrv.protocol.commands import GPIO_COUNT
from aisrv.protocol.memories import FlashPath
from aisrv.values.settings.size import KIB
from aisrv.values.settings.tables import Table
from aisrv.values.settings.toml_file import TomlFile
from flash_server.chip.part import WIDTHS

LARGEST_FRAME_SIDE: Final = 0xFFFF
"""Largest side in pixels; a region gives its edges as 16 bits."""

P = TypeVar("P", bound="Part")


class Part(Table, frozen=True):
    """A part that an add-on brings: the table of a board's file, which checks and plans itself.

    Its fields are the keys, with their defaults; its docstring and theirs are the manual's.
    """

    table: ClassVar[str]
    """Name of the table in board files."""
    arrays: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays of tables that are its fields, where it has these in place of a table."""
    opens: ClassVar[str]
    """Place of its subclass of `RunningPart`, loaded when a device starts."""

    def placed(self, file: TomlFile) -> Self:
        """Return it as it is in a file: with what depends on the file's folder."""
        _ = file
        return self

    def within(self, tiles: int) -> Self:
        """Return it for a node of so many tiles, where an option takes one away."""
        _ = tiles
        return self

    def tables(self) -> Mapping[str, object]:
        """Return its table, or its arrays of tables, by name."""
        return {name: getattr(self, name) for name in self.arrays} or {self.table: self}

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield what a drawing of the board lists of it, in columns."""
        yield from ()

    def check(self, board: "Board") -> None:
        """Raise BoardError where it does not fit the board."""

    def plan(self, servers: Servers) -> Iterator[Task | Link]:
        """Yield its tasks and channels."""
        _ = servers
        yield from ()


@dataclass(frozen=True, slots=True)
class Board:
    """A node with its parts. The default is one engine, with USB and SPI on tile 1.

    Raises BoardError for one that cannot be built. Whether its tiles have cores and channel ends enough is
    checked with its plan: `aisrv.board.task_plan`.
    """

    engines: tuple[EngineSpec, ...] = field(default_factory=lambda: (EngineSpec(),))
    """AI engines, from engine 0."""
    tiles: int = 2
    """Tiles of the node: 1 or 2."""
    usb_tile: int = 1
    """Tile of the USB tasks."""
    usb_task: str | None = None
    """Task of the user's own, in C, that is the USB device, with the headers xud.h and xud_device.h. Default:
    the AI server's tasks."""
    core_clock_mhz: int = 600
    """Clock of every tile, shared by its cores, in MHz."""
    reference_mhz: float = 100
    """Clock that timers count, in MHz; GET_TIMINGS is in ticks of it."""
    flash_path: FlashPath | float | None = None
    """Speed of reading parameters from flash: server, fast, or MB/s; None: fast for files of 2024, else
    server."""
    device_time: bool = False
    """Whether everything takes the time of the modeled chip, as with --device-time."""
    xscope: Path | None = None
    """Config file of xscope, with the probes of its tasks. Default: those that programs in C register."""
    internal_kib: int = 512
    """KiB of SRAM of each tile."""
    spi: SpiSpec | None = DEFAULT_SPI
    """An SPI port; None is off."""
    flashes: tuple[FlashSpec, ...] = ()
    """Flash chips, from chip 0."""
    serial: str | None = None
    """USB serial number; hardware has none."""
    protocol: UsbProtocol = UsbProtocol.AISRV
    """Protocol over USB: the AI server's commands, or those of XMOS's ioserver."""
    sensor: SensorSpec | None = None
    """A sensor with the tasks that acquire its frames."""
    parts: tuple[Part, ...] = ()
    """Parts that add-ons bring."""
    ports: tuple[PortSpec, ...] = ()
    """Ports with a use, only to be shown; nothing drives them."""
    tasks: tuple[TaskSpec, ...] = ()
    """Tasks of the user's own, beside those of the parts above."""
    usb_port: int | None = None
    """TCP port of `aisrv run` for USB/IP. Default: the command's."""
    description: str = ""
    """Short description of the board."""
    folder: Path | None = field(default=None, compare=False)
    """Folder in which modules of its tasks are looked for first, and base of relative paths in its sensor's
    source."""
    file: TomlFile | None = field(default=None, compare=False, repr=False)
    """File that it was read from, for messages."""

    def __post_init__(self) -> None:
        if self.tiles not in (1, 2):
            raise BoardError(f"a node has 1 or 2 tiles, not {self.tiles}", "node", "tiles")
        if not 1 <= len(self.engines) <= 255:
            raise BoardError(f"a board has 1 to 255 engines, not {len(self.engines)}", "engines")
        if self.description:
            _check_shown("description", self.description, "description")
        self._check_node()
        self.check_tile("the USB layer", self.usb_tile, "usb")
        self.check_tcp_port(self.usb_port, "usb")
        for number, engine in enumerate(self.engines):
            self._check_engine(number, engine)
        if self.spi is not None:
            self._check_spi(self.spi)
        for part in self.parts:
            part.check(self)
        for number, flash in enumerate(self.flashes):
            self._check_flash(number, flash)
        if self.sensor is not None:
            self._check_sensor(self.sensor)
        for number, port in enumerate(self.ports):
            self.check_tile(f"the port {port.name!r}", port.tile, "ports", number)
            _check_shown("location", port.location, "ports", number, "location")
            _check_shown("name", port.name, "ports", number, "name")
        for number, task in enumerate(self.tasks):
            self.check_tile(f"the task {task.name!r}", task.tile, "tasks", number)
        self._check_arenas()
        self._check_chains()
        check_tasks(self.tasks, len(self.engines), len(self.flashes))
        if self.usb_task is not None:
            self._check_usb_task(self.usb_task)

    @property
    def flash_kib(self) -> int:
        """KiB of all flash chips together."""
        return sum(flash.part.size for flash in self.flashes) // KIB

    @property
    def external_kib(self) -> int:
        """KiB of external memory of all engines together, as the spec words can give it."""
        return min(0xFFFF, sum(engine.all_external_bytes for engine in self.engines) // KIB)

    @property
    def acquiring(self) -> tuple[int, ...]:
        """Numbers of the engines that acquire from the sensor; none without a sensor."""
        if self.sensor is None:
            return ()
        return tuple(
            number
            for number, engine in enumerate(self.engines)
            if (number == 0 if engine.sensor is None else engine.sensor)
        )

    def _check_node(self) -> None:
        if self.core_clock_mhz <= 0:
            raise BoardError(
                f"the core clock is {self.core_clock_mhz} MHz; it must be above 0", "node", "clock"
            )
        if not (self.reference_mhz > 0 and math.isfinite(self.reference_mhz)):
            raise BoardError(
                f"the reference clock is {self.reference_mhz:g} MHz; it must be above 0", "node", "reference"
            )
        path = self.flash_path
        if isinstance(path, int | float) and not (path > 0 and math.isfinite(path)):
            raise BoardError(f"flash is read at {path:g} MB/s; it must be above 0", "node", "flash")
        if not 1 <= self.internal_kib <= LARGEST_INTERNAL:
            raise BoardError(
                f"a tile has 1 to {LARGEST_INTERNAL} KiB of memory, not {self.internal_kib}",
                *("node", "memory"),
            )
        if self.flash_kib > LARGEST_FLASH:
            raise BoardError(
                f"{self.flash_kib} KiB of flash, at most {LARGEST_FLASH} can be described", "flash"
            )
        serial = self.serial or ""
        if not (serial.isascii() and serial.isprintable() and len(serial) <= LONGEST_SERIAL):
            raise BoardError(
                f"serial number {serial!r}: hosts take at most {LONGEST_SERIAL} printable ASCII characters",
                *("usb", "serial"),
            )

    def place(self, *setting: str | int) -> str:
        """Return where a setting is written, `board.toml:4: tasks[0].task`; nothing without a file."""
        return "" if self.file is None else self.file.place(setting)

    def part(self, kind: type[P]) -> P | None:
        """Return the part of a class; None where it has none."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def with_part(self, kind: type[P], part: P | None) -> "Board":
        """Return the board with this part in place of the one of its class; None takes that away."""
        rest = tuple(each for each in self.parts if not isinstance(each, kind))
        return replace(self, parts=rest if part is None else (*rest, part))

    def check_tile(self, what: str, tile: int, *table: str | int) -> None:
        """Raise BoardError for a tile that the node does not have."""
        if not 0 <= tile < self.tiles:
            there = "only tile 0" if self.tiles == 1 else "tiles 0 and 1"
            raise BoardError(f"{what} is on tile {tile}; the node has {there}", *table, "tile")

    @staticmethod
    def check_tcp_port(port: int | None, *table: str | int, setting: str = "port") -> None:
        """Raise BoardError for a port that TCP does not have."""
        if port is not None and not 0 <= port <= 65535:
            raise BoardError(f"invalid TCP port {port}; they are 0 to 65535", *table, setting)

    def _check_usb_task(self, name: str) -> None:
        task = next((task for task in self.tasks if task.name == name), None)
        setting = ("usb", "task")
        if task is None:
            known = ", ".join(task.name for task in self.tasks if task.can_be_usb) or "none"
            raise BoardError(f"no task {name!r} to be the USB device; those in C are {known}", *setting)
        if not task.can_be_usb:
            raise BoardError(f"the task {name!r} is in Python; a USB device of your own is in C", *setting)
        if task.tile != self.usb_tile:
            raise BoardError(
                f"the USB layer is on tile {self.usb_tile}, its task {name!r} on tile {task.tile}", *setting
            )

    def _check_engine(self, number: int, engine: EngineSpec) -> None:
        table = ("engines", number)
        self.check_tile(f"engine {number}", engine.tile, *table)
        if engine.arena_bytes < 0:
            raise BoardError(
                f"engine {number}: an arena of {engine.arena_bytes} bytes; it must be 0 or more",
                *table,
                "arena",
            )
        clock = engine.external_clock_mhz
        if clock is not None and not (clock > 0 and math.isfinite(clock)):
            raise BoardError(
                f"engine {number}: an external clock of {clock:g} MHz; it must be above 0",
                *table,
                "external_clock",
            )
        if engine.external_bytes < 0 or engine.all_external_bytes > LARGEST_EXTERNAL:
            raise BoardError(
                f"engine {number}: {engine.all_external_bytes} bytes of external memory, "
                f"at most {LARGEST_EXTERNAL} can be described",
                *(*table, "external" if engine.external_bytes else "arena"),
            )
        if not 1 <= engine.threads <= 5:
            raise BoardError(
                f"engine {number}: {engine.threads} threads; the interpreter has 1 to 5", *table, "threads"
            )
        self._check_engine_flash(number, engine)
        if engine.sensor and self.sensor is None:
            raise BoardError(f"engine {number} acquires from a sensor; the board has none", *table, "sensor")
        _check_leds(number, engine)

    def _check_engine_flash(self, number: int, engine: EngineSpec) -> None:
        if self.flashes and not 0 <= engine.flash < len(self.flashes):
            raise BoardError(
                f"engine {number}: flash chip {engine.flash}; the board has {len(self.flashes)}",
                *("engines", number, "flash"),
            )
        if engine.boot not in BOOT_COMMANDS:
            raise BoardError(
                f"engine {number}: {engine.boot!r} loads no model from flash", "engines", number, "boot"
            )
        if engine.boot is not None and not self.flashes:
            raise BoardError(
                f"engine {number} loads its model from flash; the board has none", "engines", number, "boot"
            )

    def _check_spi(self, spi: SpiSpec) -> None:
        self.check_tile("the SPI port", spi.tile, "spi")
        if not 0 <= spi.engine < len(self.engines):
            raise BoardError(
                f"the SPI port belongs to engine {spi.engine}, which is not there", "spi", "engine"
            )
        self.check_tcp_port(spi.port, "spi")

    def _check_flash(self, number: int, flash: FlashSpec) -> None:
        self.check_tile(f"flash chip {number}", flash.tile, "flash", number)
        sector = flash.part.sector_size
        if not 0 <= flash.boot_bytes <= flash.part.size or flash.boot_bytes % sector:
            raise BoardError(
                f"flash chip {number}: a boot partition of {flash.boot_bytes} bytes; "
                f"{flash.part.name} takes whole sectors of {sector} up to {flash.part.size}",
                *("flash", number, "boot_size"),
            )
        self.check_tcp_port(flash.port, "flash", number)
        if not 0 < flash.clock_hz <= flash.part.largest_clock_hz:
            raise BoardError(
                f"flash chip {number}: a clock of {flash.clock_hz / 1e6:g} MHz; {flash.part.name} reaches "
                f"{flash.part.largest_clock_hz / 1e6:g}",
                *("flash", number, "clock"),
            )
        if flash.width not in WIDTHS:
            raise BoardError(
                f"flash chip {number}: {flash.width} lines; there are {', '.join(map(str, WIDTHS))}",
                *("flash", number, "width"),
            )

    def _check_sensor(self, sensor: SensorSpec) -> None:
        self.check_tile("the sensor", sensor.tile, "sensor")
        _check_shown("source", sensor.source, "sensor", "source")
        if not sensor.source.partition(":")[1]:
            raise BoardError(
                f'the sensor: {sensor.source!r} is not a source, write "scheme:what" such as pattern:bars',
                *("sensor", "source"),
            )
        if sensor.encoding not in ENCODINGS:
            raise BoardError(
                f"the sensor: no encoding {sensor.encoding!r}; there are {', '.join(ENCODINGS)}",
                *("sensor", "encoding"),
            )
        if sensor.registers not in REGISTER_MODELS:
            raise BoardError(
                f"the sensor: no registers {sensor.registers!r}; there are {', '.join(REGISTER_MODELS)}",
                *("sensor", "registers"),
            )
        for name in ("width", "height"):
            side = getattr(sensor, name)
            if not 1 <= side <= LARGEST_FRAME_SIDE:
                raise BoardError(
                    f"the sensor: a {name} of {side}, frames have 1 to {LARGEST_FRAME_SIDE}", "sensor", name
                )
        if sensor.rate is not None and not (math.isfinite(sensor.rate) and sensor.rate > 0):
            raise BoardError(
                f"the sensor: the rate is {sensor.rate} frames a second; it must be above 0", "sensor", "rate"
            )
        if not self.acquiring:
            raise BoardError("the sensor serves no engine: let one have sensor = true", "sensor")

    def _check_arenas(self) -> None:
        for tile in range(self.tiles):
            there = [number for number, engine in enumerate(self.engines) if engine.tile == tile]
            needed = sum(self.engines[number].internal_arena_bytes for number in there)
            if needed > self.internal_kib * KIB:
                raise BoardError(
                    f"the arenas on tile {tile} need {needed} bytes; the tile has {self.internal_kib * KIB}",
                    *("engines", there[-1], "arena"),
                )

    def _check_chains(self) -> None:
        for start in range(len(self.engines)):
            seen = [start]
            while (target := self.engines[seen[-1]].chain_to) is not None:
                if not 0 <= target < len(self.engines):
                    raise BoardError(
                        f"engine {seen[-1]} is chained to engine {target}, which is not there",
                        *("engines", seen[-1], "chain"),
                    )
                if target in seen:
                    raise BoardError(
                        f"engines {', '.join(map(str, seen))} form a circle of chains",
                        *("engines", seen[-1], "chain"),
                    )
                seen.append(target)


def _check_leds(number: int, engine: EngineSpec) -> None:
    if len(engine.leds) > GPIO_COUNT:
        raise BoardError(
            f"engine {number}: {len(engine.leds)} LEDs; an engine has {GPIO_COUNT}", "engines", number, "leds"
        )
    for name in engine.leds:
        _check_shown("LED", name, "engines", number, "leds")


def _check_shown(what: str, text: str, *setting: str | int) -> None:
    if not (text and text.isprintable()):
        raise BoardError(f"the {what} {text!r} cannot be shown", *setting)
