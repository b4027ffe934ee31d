"""The modeled device: from a model to the time of each operator."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.inference.timings.cost import FITTED_CLOCK_MHZ, Basis, Cost
from aisrv.inference.timings.flash import FLASH_LOADS
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.optimized import PLAIN, XMOS, moving_bytes
from aisrv.inference.timings.reference import REFERENCE, each_element
from aisrv.model import Model, Operator
from aisrv.protocol.commands import TICKS_PER_SECOND

MAX_THREADS: Final = 5
"""Threads of one inference (XMOS lib_tflite_micro, inference_engine.h)."""
_WORD: Final = 0xFFFF_FFFF

INSTRUCTIONS: Final = "instructions"
"""The option of an operator that is code, and whose instructions were counted."""


class Kernels(enum.Enum):
    """Which kernels compute the operators that are not XMOS's own."""

    OPTIMIZED = "optimized"
    """XMOS's kernels, as if its converter had replaced the operators."""
    REFERENCE = "reference"
    """TensorFlow Lite Micro's reference kernels."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time of one operator in ticks of 10 ns; `index` is its place in execution order."""

    index: int
    name: str
    ticks: int
    basis: Basis
    source: str = ""
    """Where the figure is from."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
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

    def estimate(self, model: Model) -> tuple[OperatorTime, ...]:
        """Return the time of each operator of the main subgraph, in execution order."""
        return tuple(self._time(OperatorTensors.of(model, operator)) for operator in model.operators)

    def flash_ticks(self, nbytes: int) -> float:
        """Ticks to read that many bytes from flash: the flash sets the pace, whatever the core clock."""
        return nbytes * TICKS_PER_SECOND / self.flash_rate

    def _time(self, node: OperatorTensors) -> OperatorTime:
        name, index = node.operator.name, node.operator.index
        if name in FLASH_LOADS:
            ticks = self.flash_ticks(sum(tensor.nbytes for tensor in node.outputs))
            return OperatorTime(index, name, round(ticks), Basis.FITTED, "flash rate")
        if INSTRUCTIONS in node.operator.options.fields:
            return self._counted(node.operator)
        cost = self._cost(node)
        ticks = cost.on_threads(self.threads) * FITTED_CLOCK_MHZ / self.clock_mhz
        return OperatorTime(index, name, round(ticks), cost.basis, cost.source)

    def _counted(self, operator: Operator) -> OperatorTime:
        """The time of a node of relocatable code: one clock for each instruction, on a Cortex-M."""
        seconds = operator.options.integer(INSTRUCTIONS) / (self.clock_mhz * 1e6)
        ticks = round(seconds * TICKS_PER_SECOND)
        return OperatorTime(
            operator.index, operator.name, ticks, Basis.ESTIMATE, "instructions of a Cortex-M"
        )

    def _cost(self, node: OperatorTensors) -> Cost:
        is_reference = self.kernels is Kernels.REFERENCE
        rule = XMOS.get(node.operator.name) or (REFERENCE if is_reference else PLAIN).get(node.operator.name)
        cost = None if rule is None else rule(node)
        if cost is not None:
            return cost
        # XMOS's own operators are no reference kernels, known or not.
        if is_reference and not node.operator.is_custom:
            return each_element(node)
        return moving_bytes(node)


def to_words(times: Sequence[OperatorTime]) -> tuple[int, ...]:
    """Return the words of GET_TIMINGS: ticks, wrapped at 32 bits."""
    return tuple(time.ticks & _WORD for time in times)
