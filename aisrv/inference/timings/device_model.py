"""The modeled device: its clocks, its memories, and the time of an operator on it."""

import enum
import math
from collections.abc import Sequence
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import Basis
from aisrv.inference.timings.generation import Generation
from aisrv.protocol.memories import FlashPath, Memory

MAX_THREADS: Final = 5
"""Threads of one inference (XMOS lib_tflite_micro, inference_engine.h)."""
ISSUE_SLOTS: Final = 5
"""Core clocks of an issue slot at the least; more if more cores run."""
CORE_MHZ: Final = 600
REFERENCE_MHZ: Final = 100
"""Reference clock of a device of which nothing else is known."""
EARLY_CORE_MHZ: Final = 700
EARLY_REFERENCE_MHZ: Final = 175
"""Reference clock of the boards of 2021 and 2022."""
_WORD: Final = 0xFFFF_FFFF


class Kernels(enum.Enum):
    """Kernels that compute the operators of a file that was not converted."""

    OPTIMIZED = "optimized"
    """XMOS's kernels, as if its converter had replaced the operators."""
    REFERENCE = "reference"
    """TensorFlow Lite Micro's reference kernels."""


class OperatorTime(Struct, frozen=True):
    """Time of one operator in ticks of the reference clock."""

    index: int
    """Position in execution order."""
    name: str
    ticks: int
    low: int
    """Lower bound of the ticks."""
    high: int
    """Upper bound of the ticks."""
    basis: Basis
    source: str = ""
    form: str = ""
    """Form of a convolution's kernel."""
    slots: int = 0
    """Issue slots of one thread; 0 if they are not computed."""
    memory: Memory = Memory.INTERNAL
    """Whether it reads or writes external memory."""


class DeviceModel(Struct, frozen=True):
    """Parameters of an inference's time. ValueError for what no device has.

    Clocks and flash that are None are those of a device of today, or what `for_generation` fills in.
    """

    clock_mhz: float | None = None
    threads: int = 1
    """Threads of an inference, 1 to 5."""
    flash: FlashPath | float | None = None
    """Speed of reading parameters from flash: that of a path, or bytes a second."""
    kernels: Kernels = Kernels.OPTIMIZED
    """Kernels that compute the operators of a file that XMOS's converter did not make."""
    reference_mhz: float | None = None
    """Clock that a timer counts, in MHz: ticks are of it."""
    external_clock_mhz: float | None = None
    """Clock of the external memory in MHz; None is an eighth of the core clock."""
    generation: Generation | None = None
    """Tools that made a file; None: the file tells."""
    parameters: Memory | None = None
    """Memory of constants; None: internal, or where a profile finds that they fit."""
    arena: Memory = Memory.INTERNAL
    """Memory of activations."""
    cores: int = ISSUE_SLOTS
    """Running cores of the tile; up to 5 each has a fifth of the clock."""

    def __post_init__(self) -> None:
        for name, value in (
            ("a clock", self.clock_mhz),
            ("a reference clock", self.reference_mhz),
            ("an external clock", self.external_clock_mhz),
        ):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} of {value} MHz: it must be above 0")
        if not 1 <= self.threads <= MAX_THREADS:
            raise ValueError(f"{self.threads} threads: an inference has 1 to {MAX_THREADS}")
        if isinstance(self.flash, int | float) and not (self.flash > 0 and math.isfinite(self.flash)):
            raise ValueError(f"a flash rate of {self.flash} bytes a second: it must be above 0")
        if not 1 <= self.cores <= 8:
            raise ValueError(f"{self.cores} cores: a tile has 1 to 8")

    def for_generation(self, generation: Generation) -> Self:
        """Fill in the clocks and the flash that devices had when tools of a generation made a file."""
        early = generation.is_early
        return replace(
            self.with_flash_of(generation),
            clock_mhz=(EARLY_CORE_MHZ if early else CORE_MHZ) if self.clock_mhz is None else self.clock_mhz,
            reference_mhz=(EARLY_REFERENCE_MHZ if early else REFERENCE_MHZ)
            if self.reference_mhz is None
            else self.reference_mhz,
        )

    def with_flash_of(self, generation: Generation) -> Self:
        """Fill in the flash path of a generation: tools of 2024 came with fast flash."""
        if self.flash is not None:
            return self
        return replace(self, flash=FlashPath.FAST if generation is Generation.G2024 else FlashPath.SERVER)

    @property
    def core_mhz(self) -> float:
        """Core clock in MHz."""
        return CORE_MHZ if self.clock_mhz is None else self.clock_mhz

    @property
    def tick_mhz(self) -> float:
        """Ticks in a microsecond."""
        return REFERENCE_MHZ if self.reference_mhz is None else self.reference_mhz

    @property
    def external_mhz(self) -> float:
        """Clock of the external memory in MHz."""
        if self.external_clock_mhz is not None:
            return self.external_clock_mhz
        return self.core_mhz / laws.EXTERNAL_DIVIDER

    def slot_ticks(self, slots: float) -> float:
        """Convert issue slots to ticks."""
        return slots * max(ISSUE_SLOTS, self.cores) * self.tick_mhz / self.core_mhz

    def line_ticks(self, lines: float) -> float:
        """Return the ticks to read lines of external memory."""
        return lines * laws.LINE_CLOCKS * self.tick_mhz / self.external_mhz

    def flash_ticks(self, nbytes: int, loads: int = 1) -> float:
        """Return the ticks to read `nbytes` from flash in a number of loads."""
        if self.flash is FlashPath.FAST:
            return nbytes * laws.FAST_FLASH_BYTE * self.tick_mhz / 1000
        if isinstance(self.flash, FlashPath | None):
            clocks = laws.FLASH_SERVER_LOAD * loads + laws.FLASH_SERVER_BYTE * nbytes
            return clocks * self.tick_mhz / self.core_mhz
        return nbytes * self.tick_mhz * 1e6 / self.flash


def to_words(times: Sequence[OperatorTime]) -> tuple[int, ...]:
    """Return the words of GET_TIMINGS: ticks, wrapped at 32 bits."""
    return tuple(time.ticks & _WORD for time in times)
