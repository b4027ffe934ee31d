"""What kernels of float32 share: the bounds of fused activations.

Source: TensorFlow Lite, `kernels/kernel_util.h` (CalculateActivationRange).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from aisrv.addons.kernels.errors import UnsupportedActivation
from aisrv.addons.kernels.params import FusedActivation

LARGEST: Final = float.fromhex("0x1.fffffep127")
"""The largest float32."""


class FloatBounds(NamedTuple):
    """The range of an output: without an activation, infinities become the largest float32."""

    low: float
    high: float


_BOUNDS: Final[Mapping[FusedActivation, FloatBounds]] = {
    FusedActivation.NONE: FloatBounds(-LARGEST, LARGEST),
    FusedActivation.RELU: FloatBounds(0.0, LARGEST),
    FusedActivation.RELU6: FloatBounds(0.0, 6.0),
    FusedActivation.RELU_N1_TO_1: FloatBounds(-1.0, 1.0),
}


def activation_bounds(activation: FusedActivation) -> FloatBounds:
    """The range of an output after its activation; UnsupportedActivation for one without a kernel."""
    found = _BOUNDS.get(activation)
    if found is None:
        raise UnsupportedActivation(f"the activation {activation.name} has no float32 kernel")
    return found
