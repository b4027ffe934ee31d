"""The parts of a board, as values; `Board` checks them together."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aisrv.protocol.commands import Command
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.values.settings.size import KIB
from flash_server.chip.part import CLOCK_HZ, MX25R6435F, WIDTH, FlashPart
from flash_server.client.cache import XCORE_AI_CACHE, CacheGeometry

DEFAULT_ARENA: Final = 448 * KIB
DEFAULT_EXTERNAL: Final = 16 * KIB * KIB
LARGEST_EXTERNAL: Final = 0xFFFF * KIB
"""The spec words give external memory as 16 bits of KiB."""
LARGEST_INTERNAL: Final = 512
"""KiB of SRAM of a tile."""
LARGEST_FLASH: Final = 0xFFFF
"""KiB; the spec words have 16 bits for flash."""
LONGEST_SERIAL: Final = 126
"""Characters that a USB string descriptor holds."""
DEFAULT_BOOT: Final = KIB * KIB
"""Bytes of the boot partition at the start of a flash chip."""
BOOT_MEMORIES: Final[Mapping[str, Command]] = {
    "arena": Command.SET_MODEL_ARENA_FLASH,
    "ext": Command.SET_MODEL_EXT_FLASH,
}
"""The commands that load a model from flash, by the memory that it goes to."""
BOOT_COMMANDS: Final = (None, *BOOT_MEMORIES.values())
REGISTER_MODELS: Final = ("generic", "gc2145")
"""Register models of sensors by name, as in `aisrv.sensors.registers`."""
ENCODINGS: Final = ("bayer", "yuv", "rgb", "samples")
"""Encodings of a sensor's frames by name, as in `aisrv.sensors.image.frame.Encoding`."""


class BoardError(ValueError):
    """A board that cannot be built; the message says which setting is wrong and why."""

    def __init__(self, message: str, *setting: str | int) -> None:
        """Keep the path of the setting as board files name it: `"engines", 1, "arena"`."""
        super().__init__(message)
        self.setting: Final = setting


class BoardFileError(BoardError):
    """A file that describes no board; the message begins with the file and the line."""


class UsbProtocol(enum.Enum):
    """What a device speaks on its bulk endpoints; the codes overlap, so it is one or the other."""

    AISRV = "aisrv"
    """The AI server's own commands, in the classic and the design framing."""
    IOSERVER = "ioserver"
    """Those of XMOS's later firmware: each engine is a model number, and hosts cannot load models."""


class FlashPath(enum.Enum):
    """How a device reads parameters from flash, which decides on the time of an inference."""

    SERVER = "server"
    """Through the flash server."""
    FAST = "fast"
    """Fast flash, which came with the tools of 2024."""


class ArenaMemory(enum.Enum):
    """The memory that an engine's arena lies in."""

    INTERNAL = "internal"
    """The SRAM of its tile."""
    EXTERNAL = "external"
    """LPDDR, beside what a model set in EXT memory takes."""


@dataclass(frozen=True, slots=True)
class CommandsSpec:
    """Commands of the user's own, which an engine knows besides those of the AI server."""

    table: str
    """A mapping of codes to async functions, as "module:name"; the module may be beside the board file."""
    folder: Path | None = field(default=None, compare=False)
    """Where the module is looked for, besides where Python finds modules."""
    origin: str = field(default="", compare=False)
    """Where the table is named, for messages: `board.toml:5: engines[0].commands`."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One AI engine: where it runs, with how much memory, and where its outputs go."""

    tile: int = 0
    """The tile that it runs on."""
    arena_bytes: int = DEFAULT_ARENA
    """Bytes of the tensor arena; a model set in ARENA memory takes its bytes from it."""
    arena_memory: ArenaMemory = ArenaMemory.INTERNAL
    """Where the arena lies: in the SRAM of its tile, or in external memory."""
    external_bytes: int = DEFAULT_EXTERNAL
    """Bytes of external memory for models set in EXT memory."""
    external_clock_mhz: float | None = None
    """Clock of the external memory in MHz; None is an eighth of the core clock."""
    threads: int = 1
    """Logical cores that the modeled interpreter uses, 1 to 5."""
    chain_to: int | None = None
    """Number of the engine that gets each output as its input."""
    flash: int = 0
    """Number of the flash chip with its image, where the board has any."""
    boot: Command | None = None
    """Command that loads a model from flash at start; None leaves the engine without one."""
    cache: CacheGeometry = XCORE_AI_CACHE
    """Cache of the window on its flash image, see `Device.open_window`."""
    kind: EngineKind = field(default_factory=default_kind)
    """What runs its models: tflite, litert, tflm, xcore, kernels, relocatable, none, or `module:class`."""
    fallback: EngineKind | None = None
    """What runs models that `kernels` has no code for, such as tflm; none: they are refused."""
    sensor: bool | None = None
    """Whether it acquires from the board's sensor; None: engine 0 does, and the others do not."""
    leds: tuple[str, ...] = ()
    """Names of its GPIO outputs, up to four, from output 0; unnamed ones have their number."""
    labels: tuple[str, ...] = ()
    """Names of its classes, from class 0; without any, those in the model's file."""
    commands: CommandsSpec | None = None
    """Commands of the user's own."""
    origin: str = field(default="", compare=False)
    """Where the kind is written, as messages begin: `board.toml:4: engines[0].kind`."""

    @property
    def internal_arena_bytes(self) -> int:
        """Bytes that the arena takes of its tile's memory."""
        return self.arena_bytes if self.arena_memory is ArenaMemory.INTERNAL else 0

    @property
    def all_external_bytes(self) -> int:
        """Bytes of external memory: the arena where it lies there, and the memory for models beside it."""
        return self.external_bytes + self.arena_bytes - self.internal_arena_bytes


@dataclass(frozen=True, slots=True)
class SpiSpec:
    """An SPI port: where its slave and buffer run, and the engine that it belongs to."""

    tile: int = 1
    """The tile of its two tasks."""
    engine: int = 0
    """Number of the engine that it belongs to."""
    port: int | None = None
    """TCP port that `aisrv run` serves it on; None leaves that to the command."""


DEFAULT_SPI: Final = SpiSpec()


@dataclass(frozen=True, slots=True)
class JacdacSpec:
    """A Jacdac device: where its task runs, and how the bus is reached."""

    tile: int = 1
    """The tile of its task."""
    device_id: int | None = None
    """64 bits that name the device on the bus; None derives them from the USB serial number."""
    port: int | None = None
    """TCP port that `aisrv run` serves the bus on; None leaves that to the command."""
    websocket_port: int | None = None
    """TCP port that `aisrv run` serves WebSockets on; None leaves that to the command."""
    hub: str | None = None
    """`HOST:PORT` of another hub that `aisrv run` joins, such as that of `devs devtools`."""
    protocol_test: bool = False
    """Whether there is a Protocol Test service."""
    resets_after_load: bool = False
    """Whether the device resets itself when a model has been set over the bus."""


DEFAULT_JACDAC: Final = JacdacSpec()


@dataclass(frozen=True, slots=True)
class FlashSpec:
    """A flash chip, and where its server runs."""

    part: FlashPart = MX25R6435F
    """The chip: the name of a known part, or a part of your own."""
    tile: int = 0
    """The tile of its server."""
    path: Path | None = None
    """File with the chip's contents, created where it is missing; None is a chip in memory, erased."""
    boot_bytes: int = DEFAULT_BOOT
    """Bytes of the boot partition; the rest is the data partition."""
    clock_hz: int = CLOCK_HZ
    """Clock of its bus, in Hz."""
    width: int = WIDTH
    """Lines that carry the data of the server's reads and programs: 1, 2 or 4."""
    paced: bool = False
    """Whether its commands and operations take as long as on the part."""
    port: int | None = None
    """TCP port that `aisrv run` serves a programmer on; None leaves that to the command."""

    @property
    def rate(self) -> float:
        """Bytes a second of a long read."""
        return self.clock_hz * self.width / 8


@dataclass(frozen=True, slots=True)
class SensorSpec:
    """A sensor, and where the task runs that acquires its frames."""

    tile: int
    """The tile of its two tasks."""
    source: str
    """Where frames come from, as "scheme:what": `pattern:bars`."""
    encoding: str = "bayer"
    """How the bytes of a frame are pixels: bayer, yuv, rgb or samples."""
    width: int = 640
    """Pixels of a row."""
    height: int = 480
    """Rows."""
    rate: float | None = None
    """Frames a second of device time; None delivers each frame as soon as it is asked for."""
    registers: str = "generic"
    """What answers on the sensor's I2C bus: generic or gc2145."""
    stream: bool = False
    """Whether its engines acquire and infer by themselves as soon as a model is loaded."""
    folder: Path = field(default=Path(), compare=False)
    """Relative paths in `source` are below it."""
    origin: str = field(default="", compare=False)
    """Where the source is written, as messages begin: `board.toml:9: sensor.source`."""


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A port of a tile that the board gives a use, for those who show it."""

    tile: int
    """The tile that has the port."""
    location: str
    """The port as XMOS names it: `XS1_PORT_4C`."""
    name: str
    """What it is for: `PORT_LEDS`."""


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """A graph of stream-processing nodes that runs on the device, and what its IOs are joined to."""

    path: Path
    """File of the graph: its words, or its text, which is then compiled."""
    tile: int = 0
    """The tile of its interpreters."""
    cores: int = 1
    """Interpreters, 1 to 7, each on a core: processors 1, 2 and so on of the graph."""
    engines: tuple[int, ...] | None = None
    """The engines that its nodes may use; None: all."""
    ios: Mapping[int, str] = field(default_factory=dict, hash=False)
    """What each IO, by its IO_AL_idx, is joined to, as "scheme:what": a source of frames, `file:PATH` or
    `gpio:NAME`."""
    platform: Path | None = None
    """The top manifest that its text is compiled for; None: the one that is shipped."""
    folder: Path = field(default=Path(), compare=False)
    """Relative paths in `ios` are below it."""
    paced: bool = True
    """Whether samples come at the rate of their format, or else as fast as the graph takes them."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task of the user's own: an async function that runs on a core, with channel ends as arguments."""

    name: str
    """Its name in drawings and messages."""
    task: str
    """The function, as "module:function"; the module may be beside the board file."""
    tile: int = 0
    """The tile that it runs on."""
    ends: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What each parameter that is a channel end is joined to."""
    folder: Path | None = field(default=None, compare=False)
    """Where the module is looked for, besides where Python finds modules."""
    origin: str = field(default="", compare=False)
    """Where the function is named, for messages: `board.toml:12: tasks[0].task`."""
