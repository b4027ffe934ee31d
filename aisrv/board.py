"""Boards: what is on one, as values."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aisrv.protocol import Command
from flash_server.cache import XCORE_AI_CACHE, CacheGeometry
from flash_server.part import MX25R6435F, FlashPart

KIB: Final = 1024
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
BOOT_COMMANDS: Final = (None, Command.SET_MODEL_ARENA_FLASH, Command.SET_MODEL_EXT_FLASH)


class BoardError(ValueError):
    """A board that cannot be built; the message says which setting is wrong and why."""


class UsbProtocol(enum.Enum):
    """What a device speaks on its bulk endpoints; the codes overlap, so it is one or the other."""

    AISRV = "aisrv"
    """The AI server's own commands, in the classic and the design framing."""
    IOSERVER = "ioserver"
    """Those of XMOS's later firmware: each engine is a model number, and hosts cannot load models."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One AI engine: where it runs, with how much memory, and where its outputs go."""

    tile: int = 0
    arena_bytes: int = DEFAULT_ARENA
    """Tensor arena, in the memory of the tile; a model set in ARENA memory takes its bytes from it."""
    external_bytes: int = DEFAULT_EXTERNAL
    """External memory for models set in EXT memory."""
    threads: int = 1
    """Logical cores that the interpreter of the modelled device uses, 1 to 5."""
    chain_to: int | None = None
    """Number of the engine that gets each output as its input."""
    flash: int = 0
    """Number of the flash chip with its image, where the board has any."""
    boot: Command | None = None
    """Command that loads a model from flash at start; None leaves the engine without one."""
    cache: CacheGeometry = XCORE_AI_CACHE
    """Cache of the window on its flash image, see `Device.open_window`."""


@dataclass(frozen=True, slots=True)
class SpiSpec:
    """An SPI port: where its slave and buffer run, and the engine that it belongs to."""

    tile: int = 1
    engine: int = 0


@dataclass(frozen=True, slots=True)
class FlashSpec:
    """A flash chip, and where its server runs."""

    part: FlashPart = MX25R6435F
    tile: int = 0
    path: Path | None = None
    """File with the chip's contents, made where it is missing; None is a chip in memory, erased."""
    boot_bytes: int = DEFAULT_BOOT
    """Size of the boot partition; the rest is the data partition."""


@dataclass(frozen=True, slots=True)
class Board:
    """A node with its engines and physical layers. The default is one engine, with USB and SPI on tile 1."""

    engines: tuple[EngineSpec, ...] = (EngineSpec(),)
    tiles: int = 2
    usb_tile: int = 1
    core_clock_mhz: int = 600
    internal_kib: int = 512
    spi: SpiSpec | None = SpiSpec()
    flashes: tuple[FlashSpec, ...] = ()
    serial: str | None = None
    """USB serial number; hardware has none."""
    protocol: UsbProtocol = UsbProtocol.AISRV

    def __post_init__(self) -> None:
        if self.tiles not in (1, 2):
            raise BoardError(f"a node has 1 or 2 tiles, not {self.tiles}")
        if not 1 <= len(self.engines) <= 255:
            raise BoardError(f"a board has 1 to 255 engines, not {len(self.engines)}")
        self._check_node()
        self._check_tile("the USB layer", self.usb_tile)
        for number, engine in enumerate(self.engines):
            self._check_engine(number, engine)
        if self.spi is not None:
            self._check_tile("the SPI port", self.spi.tile)
            if not 0 <= self.spi.engine < len(self.engines):
                raise BoardError(f"the SPI port belongs to engine {self.spi.engine}, which is not there")
        for number, flash in enumerate(self.flashes):
            self._check_flash(number, flash)
        self._check_arenas()
        self._check_chains()

    @property
    def flash_kib(self) -> int:
        """KiB of all flash chips together."""
        return sum(flash.part.size for flash in self.flashes) // KIB

    @property
    def external_kib(self) -> int:
        """KiB of external memory of all engines together, as the spec words can give it."""
        return min(0xFFFF, sum(engine.external_bytes for engine in self.engines) // KIB)

    def _check_node(self) -> None:
        if self.core_clock_mhz <= 0:
            raise BoardError(f"a core clock of {self.core_clock_mhz} MHz, it must be above 0")
        if not 1 <= self.internal_kib <= LARGEST_INTERNAL:
            raise BoardError(f"a tile has 1 to {LARGEST_INTERNAL} KiB of memory, not {self.internal_kib}")
        if self.flash_kib > LARGEST_FLASH:
            raise BoardError(f"{self.flash_kib} KiB of flash, at most {LARGEST_FLASH} can be described")
        serial = self.serial or ""
        if not (serial.isascii() and serial.isprintable() and len(serial) <= LONGEST_SERIAL):
            raise BoardError(
                f"serial number {serial!r}: hosts take at most {LONGEST_SERIAL} printable ASCII characters"
            )

    def _check_tile(self, what: str, tile: int) -> None:
        if not 0 <= tile < self.tiles:
            raise BoardError(f"{what} is on tile {tile}, the node has {self.tiles}")

    def _check_engine(self, number: int, engine: EngineSpec) -> None:
        self._check_tile(f"engine {number}", engine.tile)
        if engine.arena_bytes < 0:
            raise BoardError(f"engine {number}: an arena of {engine.arena_bytes} bytes")
        if not 0 <= engine.external_bytes <= LARGEST_EXTERNAL:
            raise BoardError(
                f"engine {number}: {engine.external_bytes} bytes of external memory, "
                f"at most {LARGEST_EXTERNAL} can be described"
            )
        if not 1 <= engine.threads <= 5:
            raise BoardError(f"engine {number}: {engine.threads} threads, the interpreter has 1 to 5")

        if self.flashes and not 0 <= engine.flash < len(self.flashes):
            raise BoardError(f"engine {number}: flash chip {engine.flash}, the board has {len(self.flashes)}")
        if engine.boot not in BOOT_COMMANDS:
            raise BoardError(f"engine {number}: {engine.boot!r} loads no model from flash")
        if engine.boot is not None and not self.flashes:
            raise BoardError(f"engine {number} loads its model from flash, the board has none")

    def _check_flash(self, number: int, flash: FlashSpec) -> None:
        self._check_tile(f"flash chip {number}", flash.tile)
        sector = flash.part.sector_size
        if not 0 <= flash.boot_bytes <= flash.part.size or flash.boot_bytes % sector:
            raise BoardError(
                f"flash chip {number}: a boot partition of {flash.boot_bytes} bytes; "
                f"{flash.part.name} takes whole sectors of {sector} up to {flash.part.size}"
            )

    def _check_arenas(self) -> None:
        for tile in range(self.tiles):
            needed = sum(engine.arena_bytes for engine in self.engines if engine.tile == tile)
            if needed > self.internal_kib * KIB:
                raise BoardError(
                    f"the arenas on tile {tile} need {needed} bytes, the tile has {self.internal_kib * KIB}"
                )

    def _check_chains(self) -> None:
        for start in range(len(self.engines)):
            seen = [start]
            while (target := self.engines[seen[-1]].chain_to) is not None:
                if not 0 <= target < len(self.engines):
                    raise BoardError(f"engine {seen[-1]} is chained to engine {target}, which is not there")
                if target in seen:
                    raise BoardError(f"engines {', '.join(map(str, seen))} form a circle of chains")
                seen.append(target)


BOARDS: Final[dict[str, Board]] = {
    "single": Board(),
    "two-engines": Board(engines=(EngineSpec(tile=0), EngineSpec(tile=1))),
    "chained": Board(engines=(EngineSpec(tile=0, chain_to=1), EngineSpec(tile=1))),
}
"""Boards by name: one engine, two that work apart, two of which the first feeds the second."""
