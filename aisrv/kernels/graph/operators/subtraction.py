"""SUB and SQUARED_DIFFERENCE: both take the second input away, on a scale that fits both.

Sources: `reference/sub.h` of TensorFlow Lite, `squared_difference.cc` of TensorFlow Lite Micro.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.kernels import int16
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
from aisrv.kernels.backends.numpy.words import multiply
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view, symmetric
from aisrv.kernels.graph.operators.lookup import int8_table
from aisrv.kernels.graph.operators.pairs import by_pairs, pair_table
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.kernels.params import INT16
from aisrv.model import TensorType

_SQUARED_LEFT_SHIFT: Final = 7
"""SQUARED_DIFFERENCE widens its inputs by so many bits: 32 hold the square."""

_Values = npt.NDArray[np.int64]


class _Difference(NamedTuple):
    """The difference of each pair of bytes in steps of half the larger scale, widened."""

    values: _Values
    twice_larger: float
    """Twice the larger scale."""


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB of int8 or int16, of inputs that broadcast."""
    if node.inputs and node.input(0).tensor.type is TensorType.INT16:
        return _subtract_int16(node)
    values, twice_larger = _differences(node, ADD_LEFT_SHIFT)
    quant = node.output().quantization
    multiplier = quantized_multiplier(twice_larger / ((1 << ADD_LEFT_SHIFT) * quant.scale))
    return _rescaled(node, values, multiplier, activation_bounds(node.activation, quant))


def _subtract_int16(node: OperatorNode) -> Kernel:
    node.expect(2)
    one, two = node.input(0, TensorType.INT16), node.input(1, TensorType.INT16)
    output = node.output(0, TensorType.INT16)
    symmetric(one, two, output)
    scales, quant = (one.quantization.scale, two.quantization.scale), output.quantization
    twice_larger, bits = 2 * max(scales), int16.ADD_LEFT_SHIFT
    factors = [quantized_multiplier(scale / twice_larger) for scale in scales]
    to_output = quantized_multiplier(twice_larger / ((1 << bits) * quant.scale))
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array
    low, high = activation_bounds(node.activation, quant, INT16)

    def kernel() -> None:
        first, second = (
            multiply(view.astype(np.int64) << bits, factor)
            for view, factor in zip((left, right), factors, strict=True)
        )
        np.clip(multiply(first - second, to_output), low, high, out=write, casting="unsafe")

    return kernel


def squared_difference(node: OperatorNode) -> Kernel:
    """Prepare SQUARED_DIFFERENCE, of inputs that broadcast."""
    values, twice_larger = _differences(node, _SQUARED_LEFT_SHIFT)
    scale = (1 << 2 * _SQUARED_LEFT_SHIFT) * node.output().quantization.scale
    multiplier = quantized_multiplier(twice_larger * twice_larger / scale)
    return _rescaled(node, values * values, multiplier, Bounds(INT8_MIN, INT8_MAX))


def _differences(node: OperatorNode, left_shift: int) -> _Difference:
    node.expect(2)
    one, two = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    node.output(0, TensorType.INT8)
    twice_larger = 2 * max(one.quantization.scale, two.quantization.scale)
    tables = (_table(each, twice_larger, left_shift) for each in (one, two))
    return _Difference(pair_table(np.subtract, *tables), twice_larger)


def _table(tensor: GraphTensor, twice_larger: float, left_shift: int) -> _Values:
    """What each byte contributes."""
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    multiplier = quantized_multiplier(scale / twice_larger)
    return int8_table(lambda value: multiply_twice_rounded((value - zero_point) << left_shift, multiplier))


def _rescaled(node: OperatorNode, values: _Values, multiplier: Multiplier, bounds: Bounds) -> Kernel:
    one, two, output = node.input(0), node.input(1), node.output()
    levels = np.clip(multiply(values, multiplier) + output.quantization.zero_point, *bounds)
    return by_pairs(node, one, two, output, levels.astype(np.int8))
