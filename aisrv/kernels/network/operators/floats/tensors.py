"""Tensors and fused activations of operators of float32, and kernels that raise no warnings."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.kernels.backend import Kernel
from aisrv.kernels.errors import UnsupportedActivation
from aisrv.kernels.network.operator_node import OperatorNode
from aisrv.kernels.network.tensors import NetworkTensor
from aisrv.kernels.params import FusedActivation
from aisrv.model import TensorType

Floats: TypeAlias = npt.NDArray[np.float32]
Finish: TypeAlias = Callable[[Floats], Any]
"""Bounds sums and writes them to an output."""

_LARGEST: Final = float(np.finfo(np.float32).max)
_BOUNDS: Final[Mapping[FusedActivation, tuple[float, float]]] = {
    FusedActivation.NONE: (-_LARGEST, _LARGEST),
    FusedActivation.RELU: (0.0, _LARGEST),
    FusedActivation.RELU6: (0.0, 6.0),
    FusedActivation.RELU_N1_TO_1: (-1.0, 1.0),
}


def float_input(node: OperatorNode, number: int = 0) -> NetworkTensor:
    """An input of float32."""
    return node.input(number, TensorType.FLOAT32)


def float_output(node: OperatorNode) -> NetworkTensor:
    """The output, of float32."""
    return node.output(0, TensorType.FLOAT32)


def bounds(activation: FusedActivation) -> tuple[np.float32, np.float32]:
    """The range of an output after its activation: without one, infinities become the largest float32."""
    found = _BOUNDS.get(activation)
    if found is None:
        raise UnsupportedActivation(f"the activation {activation.name} has no float32 kernel")
    return np.float32(found[0]), np.float32(found[1])


def finish(node: OperatorNode) -> Finish:
    """Bound values by the operator's activation, and write them to its output."""
    low, high = bounds(node.activation)
    write = float_output(node).array

    def write_bounded(values: Floats) -> None:
        np.clip(values.reshape(write.shape), low, high, out=write)

    return write_bounded


def quiet(kernel: Callable[[], object]) -> Kernel:
    """Compute with whatever floats there are: infinities and what is no number are results, too."""

    def run() -> None:
        with np.errstate(all="ignore"):
            kernel()

    return run


def laid_out(tensor: NetworkTensor, *order: int) -> Floats:
    """A tensor with its dimensions in another order; a constant is copied so that it lies in that order."""
    view = tensor.array.transpose(order)
    return np.ascontiguousarray(view) if tensor.tensor.is_constant else view
