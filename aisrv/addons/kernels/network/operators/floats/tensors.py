"""Tensors and fused activations of operators of float32, and kernels that raise no warnings."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.float32 import activation_bounds
from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

Floats: TypeAlias = npt.NDArray[np.float32]
Finish: TypeAlias = Callable[[Floats], Any]
"""Bounds sums and writes them to an output."""


def float_input(node: OperatorNode, number: int = 0) -> NetworkTensor:
    """An input of float32."""
    return node.input(number, TensorType.FLOAT32)


def float_output(node: OperatorNode) -> NetworkTensor:
    """The output, of float32."""
    return node.output(0, TensorType.FLOAT32)


def finish(node: OperatorNode) -> Finish:
    """Bound values by the operator's activation, and write them to its output."""
    low, high = (np.float32(bound) for bound in activation_bounds(node.activation))
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
