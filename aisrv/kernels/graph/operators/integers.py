"""ADD, SUB and MUL of int32 as they are, which chains of shapes have. Quantized ones are elsewhere.

Source: `add.cc`, `sub.cc`, `mul.cc` of TensorFlow Lite Micro. Results wrap around.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aisrv.kernels.arithmetic import INT32_MAX, INT32_MIN, Bounds
from aisrv.kernels.backend import Kernel
from aisrv.kernels.errors import UnsupportedActivation
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view
from aisrv.kernels.graph.operators import backend_operators, subtraction
from aisrv.kernels.params import FusedActivation
from aisrv.model import TensorType

_BOUNDS: Final = {
    FusedActivation.NONE: Bounds(INT32_MIN, INT32_MAX),
    FusedActivation.RELU: Bounds(0, INT32_MAX),
    FusedActivation.RELU6: Bounds(0, 6),
    FusedActivation.RELU_N1_TO_1: Bounds(-1, 1),
}


def add(node: OperatorNode) -> Kernel:
    """Prepare ADD; of int32, TFLM ignores the fused activation."""
    if _is_int32(node):
        return _combine(node, np.add, _BOUNDS[FusedActivation.NONE])
    return backend_operators.add(node)


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB."""
    return _combine(node, np.subtract, _bounds(node)) if _is_int32(node) else subtraction.subtract(node)


def multiply(node: OperatorNode) -> Kernel:
    """Prepare MUL."""
    return _combine(node, np.multiply, _bounds(node)) if _is_int32(node) else backend_operators.mul(node)


def _is_int32(node: OperatorNode) -> bool:
    return bool(node.inputs) and node.input(0).tensor.type is TensorType.INT32


def _bounds(node: OperatorNode) -> Bounds:
    bounds = _BOUNDS.get(node.activation)
    if bounds is None:
        raise UnsupportedActivation(f"the activation {node.activation.name} has no int32 kernel")
    return bounds


def _combine(node: OperatorNode, function: Callable[..., Any], bounds: Bounds) -> Kernel:
    node.expect(2)
    one, two = node.input(0, TensorType.INT32), node.input(1, TensorType.INT32)
    output = node.output(0, TensorType.INT32)
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        np.clip(function(left, right), *bounds, out=write)

    return kernel
