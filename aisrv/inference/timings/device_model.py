"""The modeled device: its speed, and the time of an operator on it."""

import enum
import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from aisrv.inference.timings.cost import FITTED_CLOCK_MHZ, Basis
from aisrv.protocol.commands import TICKS_PER_SECOND

MAX_THREADS: Final = 5
"""Threads of one inference (XMOS lib_tflite_micro, inference_engine.h)."""
_WORD: Final = 0xFFFF_FFFF


class Kernels(enum.Enum):
    """Which kernels compute the operators that are not XMOS's own."""

    OPTIMIZED = "optimized"
    """XMOS's kernels, as if its converter had replaced the operators."""
    REFERENCE = "reference"
    """TensorFlow Lite Micro's reference kernels."""


class OperatorTime(Struct, frozen=True):
    """Time of one operator in ticks of 10 ns; `index` is its place in execution order."""

    index: int
    """Its place in execution order."""
    name: str
    """Its name, such as CONV_2D."""
    ticks: int
    """The time."""
    basis: Basis
    """Whether the figure is fitted or an estimate."""
    source: str = ""
    """Where the figure is from."""


class DeviceModel(Struct, frozen=True):
    """The device's speed: core clock, threads of an inference, flash rate in bytes a second.

    12.5 MB/s is quad flash at 25 MHz; fast flash at 100 MHz has 50 MB/s. ValueError for what no device has.
    """

    clock_mhz: float = FITTED_CLOCK_MHZ
    """Core clock in MHz."""
    threads: int = 1
    """Threads of an inference, 1 to 5."""
    flash_rate: float = 12_500_000
    """Bytes a second that are read from flash."""
    kernels: Kernels = Kernels.OPTIMIZED
    """Who computes the operators that XMOS's converter did not replace."""

    def __post_init__(self) -> None:
        if not (self.clock_mhz > 0 and math.isfinite(self.clock_mhz)):
            raise ValueError(f"a clock of {self.clock_mhz} MHz: it must be above 0")
        if not 1 <= self.threads <= MAX_THREADS:
            raise ValueError(f"{self.threads} threads: an inference has 1 to {MAX_THREADS}")
        if not (self.flash_rate > 0 and math.isfinite(self.flash_rate)):
            raise ValueError(f"a flash rate of {self.flash_rate} bytes a second: it must be above 0")

    def flash_ticks(self, nbytes: int) -> float:
        """Ticks to read `nbytes` from flash: the flash sets the pace, whatever the core clock."""
        return nbytes * TICKS_PER_SECOND / self.flash_rate


def to_words(times: Sequence[OperatorTime]) -> tuple[int, ...]:
    """Return the words of GET_TIMINGS: ticks, wrapped at 32 bits."""
    return tuple(time.ticks & _WORD for time in times)
