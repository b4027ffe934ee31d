"""Boards: what is on one, as values."""

import enum
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Board:
    """A node with its engines and its USB layer. The default is one engine, with USB on the other tile."""

    engines: tuple[EngineSpec, ...] = (EngineSpec(),)
    tiles: int = 2
    usb_tile: int = 1
    core_clock_mhz: int = 600
    internal_kib: int = 512
    flash_kib: int = 0
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
        self._check_arenas()
        self._check_chains()

    @property
    def external_kib(self) -> int:
        """KiB of external memory of all engines together, as the spec words can give it."""
        return min(0xFFFF, sum(engine.external_bytes for engine in self.engines) // KIB)

    def _check_node(self) -> None:
        if self.core_clock_mhz <= 0:
            raise BoardError(f"a core clock of {self.core_clock_mhz} MHz, it must be above 0")
        if not 1 <= self.internal_kib <= LARGEST_INTERNAL:
            raise BoardError(f"a tile has 1 to {LARGEST_INTERNAL} KiB of memory, not {self.internal_kib}")
        if not 0 <= self.flash_kib <= LARGEST_FLASH:
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
