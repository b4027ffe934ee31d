"""SUB and SQUARED_DIFFERENCE: both take the second input away, on a scale that fits both.

Sources: `reference/sub.h` of TensorFlow Lite, `squared_difference.cc` of TensorFlow Lite Micro.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import (
    ADD_LEFT_SHIFT,
    INT8_MAX,
    INT8_MIN,
    Bounds,
    Multiplier,
    activation_bounds,
    multiply_twice_rounded,
    quantized_multiplier,
)
from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view
from aisrv.kernels.graph.operators.lookup import int8_table
from aisrv.kernels.graph.operators.vectors import multiply
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.model import TensorType

_SQUARED_LEFT_SHIFT: Final = 7
"""SQUARED_DIFFERENCE widens its inputs by so many bits: 32 hold the square."""

_Values = npt.NDArray[np.int64]


class _Difference(NamedTuple):
    """The difference of two inputs in steps of half the larger scale, widened, and where the result goes."""

    output: GraphTensor
    twice_larger: float
    """Twice the larger scale."""
    compute: Callable[[], _Values]


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB, of inputs that broadcast."""
    output, twice_larger, compute = _difference(node, ADD_LEFT_SHIFT)
    quant = output.quantization
    multiplier = quantized_multiplier(twice_larger / ((1 << ADD_LEFT_SHIFT) * quant.scale))
    bounds = activation_bounds(node.activation, quant)
    return _rescaled(compute, multiplier, output, bounds)


def squared_difference(node: OperatorNode) -> Kernel:
    """Prepare SQUARED_DIFFERENCE, of inputs that broadcast."""
    output, twice_larger, compute = _difference(node, _SQUARED_LEFT_SHIFT)
    scale = (1 << 2 * _SQUARED_LEFT_SHIFT) * output.quantization.scale
    multiplier = quantized_multiplier(twice_larger * twice_larger / scale)
    return _rescaled(lambda: compute() ** 2, multiplier, output, Bounds(INT8_MIN, INT8_MAX))


def _difference(node: OperatorNode, left_shift: int) -> _Difference:
    node.expect(2)
    one, two = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    output = node.output(0, TensorType.INT8)
    twice_larger = 2 * max(one.quantization.scale, two.quantization.scale)
    table1, table2 = _table(one, twice_larger, left_shift), _table(two, twice_larger, left_shift)
    index1, index2 = (broadcast_view(each, output).view(np.uint8) for each in (one, two))
    return _Difference(output, twice_larger, lambda: table1[index1] - table2[index2])


def _table(tensor: GraphTensor, twice_larger: float, left_shift: int) -> _Values:
    """What each byte contributes."""
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    multiplier = quantized_multiplier(scale / twice_larger)
    return int8_table(lambda value: multiply_twice_rounded((value - zero_point) << left_shift, multiplier))


def _rescaled(
    compute: Callable[[], _Values], multiplier: Multiplier, output: GraphTensor, bounds: Bounds
) -> Kernel:
    write, zero_point = output.array, output.quantization.zero_point
    low, high = bounds

    def kernel() -> None:
        np.clip(multiply(compute(), multiplier) + zero_point, low, high, out=write, casting="unsafe")

    return kernel
