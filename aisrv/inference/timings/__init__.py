"""Timing model of the device: how long each operator of a model would take on the chip.

No interpreter on a host can tell, so the times are computed from shapes, by formulas that were fitted to
published runs of XMOS's kernels, and every time says what it rests on. Source of the figures: "Inference
engines", section Timings; the published runs are in XMOS ai_tools, examples/app_profiling/README.rst. They
are assumed to have been made at 600 MHz. An operator without a published figure gets an estimate.
"""

from aisrv.inference.timings.cost import FITTED_CLOCK_MHZ, Basis
from aisrv.inference.timings.device_model import MAX_THREADS, DeviceModel, Kernels, OperatorTime, to_words
from aisrv.inference.timings.flash import FLASH_LOADS, used_constant_bytes
from aisrv.inference.timings.summary import (
    OperatorClass,
    estimate_note,
    estimate_share,
    operator_classes,
    profiler_summary,
)

__all__ = [
    "FITTED_CLOCK_MHZ",
    "FLASH_LOADS",
    "MAX_THREADS",
    "Basis",
    "DeviceModel",
    "Kernels",
    "OperatorClass",
    "OperatorTime",
    "estimate_note",
    "estimate_share",
    "operator_classes",
    "profiler_summary",
    "to_words",
    "used_constant_bytes",
]
