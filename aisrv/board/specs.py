"""The parts of a board, as values; `Board` checks them together."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aisrv.protocol.commands import Command
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.protocol.memories import Memory
from aisrv.values.printable import PrintableError
from aisrv.values.settings.size import KIB, Size
from aisrv.values.settings.tables import Hertz, Integer, Number, Table
from flash_server.chip.part import CLOCK_HZ, MX25R6435F, WIDTH, FlashPart
from flash_server.client.cache import XCORE_AI_CACHE, CacheGeometry

DEFAULT_ARENA: Final = 448 * KIB
DEFAULT_EXTERNAL: Final = 16 * KIB * KIB
LARGEST_EXTERNAL: Final = 0xFFFF * KIB
"""Largest external memory: the spec words give it as 16 bits of KiB."""
LARGEST_INTERNAL: Final = 512
"""KiB of SRAM of a tile."""
LARGEST_FLASH: Final = 0xFFFF
"""KiB; the spec words have 16 bits for flash."""
LONGEST_SERIAL: Final = 126
"""Characters that a USB string descriptor holds."""
DEFAULT_BOOT: Final = Size(KIB * KIB)
"""Bytes of the boot partition at the start of a flash chip."""
BOOT_MEMORIES: Final[Mapping[str, Command]] = {
    "arena": Command.SET_MODEL_ARENA_FLASH,
    "ext": Command.SET_MODEL_EXT_FLASH,
}
"""Commands that load a model from flash, by the memory that it goes to."""
BOOT_COMMANDS: Final = (None, *BOOT_MEMORIES.values())
REGISTER_MODELS: Final = ("generic", "gc2145")
"""Names of the register models in `aisrv.sensors.registers`."""
ENCODINGS: Final = ("bayer", "yuv", "rgb", "samples")
"""Names in `aisrv.sensors.image.frame.Encoding`."""


class BoardError(PrintableError, ValueError):
    """A board that cannot be built; the message says which setting is wrong and why."""

    def __init__(self, message: str, *setting: str | int) -> None:
        """Keep the path of the setting as board files name it: `"engines", 1, "arena"`."""
        super().__init__(message)
        self.setting: Final = setting


class BoardFileError(BoardError):
    """A file that describes no board; the message begins with the file and the line."""


class UsbProtocol(enum.Enum):
    """Protocol of a device on its bulk endpoints; the codes overlap, so it is one or the other."""

    AISRV = "aisrv"
    """The AI server's own commands, in the classic and the design framing."""
    IOSERVER = "ioserver"
    """The commands of XMOS's later firmware: each engine is a model number, and hosts cannot load models."""


@dataclass(frozen=True, slots=True)
class CommandsSpec:
    """Commands of the user's own, which an engine knows besides those of the AI server."""

    table: str
    """A mapping of codes to async functions, as "module:name"; the module may be beside the board file."""
    folder: Path | None = field(default=None, compare=False)
    """Folder in which the module is looked for first."""
    origin: str = field(default="", compare=False)
    """Place of the table, for messages: `board.toml:5: engines[0].commands`."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One AI engine with its memory and its outputs."""

    tile: int = 0
    """Tile that it runs on."""
    arena_bytes: int = DEFAULT_ARENA
    """Bytes of the tensor arena; a model set in ARENA memory takes its bytes from it."""
    arena_memory: Memory = Memory.INTERNAL
    """Memory that holds the arena: the SRAM of its tile, or external memory."""
    external_bytes: int = DEFAULT_EXTERNAL
    """Bytes of external memory for models set in EXT memory."""
    external_clock_mhz: float | None = None
    """Clock of the external memory in MHz; None is an eighth of the core clock."""
    threads: int = 1
    """Logical cores that the modeled interpreter uses, 1 to 5."""
    chain_to: int | None = None
    """Number of the engine that gets each output as its input."""
    flash: int = 0
    """Number of the flash chip with its image, if the board has any."""
    boot: Command | None = None
    """Command that loads a model from flash at start; None leaves the engine without one."""
    cache: CacheGeometry = XCORE_AI_CACHE
    """Cache of the window on its flash image, see `Device.open_window`."""
    kind: EngineKind = field(default_factory=default_kind)
    """Interpreter of its models: tflite, litert, tflm, xcore, kernels, relocatable, none, or
    `module:class`."""
    fallback: EngineKind | None = None
    """Interpreter of models that `kernels` has no code for, such as tflm; none: they are refused."""
    sensor: bool | None = None
    """Whether it acquires from the board's sensor; None: engine 0 does, and the others do not."""
    leds: tuple[str, ...] = ()
    """Names of its GPIO outputs, up to four, from output 0; unnamed ones have their number."""
    labels: tuple[str, ...] = ()
    """Names of its classes, from class 0; without any, those in the model's file."""
    commands: CommandsSpec | None = None
    """Commands of the user's own."""
    origin: str = field(default="", compare=False)
    """Place of the kind, for messages: `board.toml:4: engines[0].kind`."""

    @property
    def internal_arena_bytes(self) -> int:
        """Bytes that the arena takes of its tile's memory."""
        return self.arena_bytes if self.arena_memory is Memory.INTERNAL else 0

    @property
    def all_external_bytes(self) -> int:
        """Bytes of external memory: that for models, and the arena if it lies there."""
        return self.external_bytes + self.arena_bytes - self.internal_arena_bytes


class SpiSpec(Table, frozen=True):
    """An SPI port; without this table there is none."""

    tile: Integer = 1
    """Tile of its two tasks."""
    engine: Integer = 0
    """Number of its engine."""
    port: Integer | None = None
    """TCP port of `aisrv run` for the SPI link. Default: the command's."""


DEFAULT_SPI: Final = SpiSpec()


class FlashSpec(
    Table,
    frozen=True,
    rename={"path": "file", "boot_bytes": "boot_size", "clock_hz": "clock", "paced": "pace"},
):
    """A flash chip and the tile of its server."""

    part: FlashPart = MX25R6435F
    """The chip: the name of a known part, or a part of your own."""
    tile: Integer = 0
    """Tile of its server."""
    path: Path | None = None
    """File with the chip's contents, created if it is missing; none: a chip in memory, erased."""
    boot_bytes: Size = DEFAULT_BOOT
    """Bytes of the boot partition; the rest is the data partition."""
    clock_hz: Hertz = Hertz(CLOCK_HZ)
    """Clock of its bus, in Hz."""
    width: Integer = WIDTH
    """Lines that carry the data of the server's reads and programs: 1, 2 or 4."""
    paced: bool = False
    """Whether its commands and operations take as long as on the part."""
    port: Integer | None = None
    """TCP port of `aisrv run` for a programmer. Default: the command's."""

    @property
    def rate(self) -> float:
        """Bytes a second of a long read."""
        return self.clock_hz * self.width / 8


class SensorSpec(Table, frozen=True):
    """A sensor, and the tile of the tasks that acquire its frames."""

    tile: Integer
    """Tile of its two tasks."""
    source: str
    """Source of frames, as "scheme:place": `pattern:bars`."""
    encoding: str = "bayer"
    """Encoding of a frame's pixels: bayer, yuv, rgb or samples."""
    width: Integer = 640
    """Pixels of a row."""
    height: Integer = 480
    """Rows."""
    rate: Number | None = None
    """Frames a second of device time; without it each frame is delivered as soon as it is asked for."""
    registers: str = "generic"
    """Register model on the sensor's I2C bus: generic or gc2145."""
    stream: bool = False
    """Whether its engines acquire and infer by themselves as soon as a model is loaded."""


class PortSpec(Table, frozen=True):
    """A port of a tile that the board gives a use, only to be shown."""

    tile: Integer
    """Tile that has the port."""
    location: str
    """The port as XMOS names it: `XS1_PORT_4C`."""
    name: str
    """Use of the port: `PORT_LEDS`."""
