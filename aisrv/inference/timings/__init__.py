"""Timing model of the device: the time of each operator of a model on the chip.

No interpreter on a host can tell, so the times are computed from shapes: issue slots by laws that were fitted
to published runs of XMOS's kernels (`laws.py`), then clocks, running cores, flash and external memory. Every
time has a band and says what it rests on.
"""

from aisrv.inference.timings.cost import Band, Basis
from aisrv.inference.timings.device_model import (
    MAX_THREADS,
    DeviceModel,
    Kernels,
    OperatorTime,
    to_words,
)
from aisrv.inference.timings.generation import FileGeneration, Generation, generation_of
from aisrv.inference.timings.summary import (
    OperatorClass,
    estimate_note,
    estimate_share,
    operator_classes,
    profiler_summary,
)
from aisrv.inference.timings.total import Total, basis_shares, spell, sum_of, total_of
from aisrv.protocol.memories import FlashPath, Memory

__all__ = [
    "MAX_THREADS",
    "Band",
    "Basis",
    "DeviceModel",
    "FileGeneration",
    "FlashPath",
    "Generation",
    "Kernels",
    "Memory",
    "OperatorClass",
    "OperatorTime",
    "Total",
    "basis_shares",
    "estimate_note",
    "estimate_share",
    "generation_of",
    "operator_classes",
    "profiler_summary",
    "spell",
    "sum_of",
    "to_words",
    "total_of",
]
