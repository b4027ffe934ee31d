"""RELU, RELU6, PRELU and ABS: int8 values that keep their size on one side of zero.

Sources: `activations.cc` and `elementwise.cc` of TensorFlow Lite Micro, `prelu.h` of TensorFlow Lite.
"""

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.arithmetic import (
    INT8_MAX,
    INT8_MIN,
    float32,
    multiply_twice_rounded,
    quantized_multiplier,
    round_half_away,
)
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.elementwise import pair_table
from aisrv.addons.kernels.backends.numpy.words import word_scale
from aisrv.addons.kernels.network.operator_node import OperatorNode, same_shape
from aisrv.addons.kernels.network.operators.lookup import by_pairs, by_table, int8_table, unary
from aisrv.model import TensorType


def relu(node: OperatorNode) -> Kernel:
    """Prepare RELU, from one scale to another."""
    source, output, quant, output_quant = unary(node)
    multiplier = quantized_multiplier(quant.scale / output_quant.scale)
    lowest = max(INT8_MIN, output_quant.zero_point)

    def value(integer: int) -> int:
        scaled = multiply_twice_rounded(integer - quant.zero_point, multiplier)
        return max(lowest, scaled + output_quant.zero_point)

    return by_table(source, output, value)


def relu6(node: OperatorNode) -> Kernel:
    """Prepare RELU6: the input between its own 0 and 6, whatever the output's scale."""
    source, output, quant, _ = unary(node)
    six = min(INT8_MAX, quant.zero_point + round_half_away(float32(6.0 / quant.scale)))
    return by_table(source, output, lambda integer: min(six, max(quant.zero_point, integer)))


def absolute(node: OperatorNode) -> Kernel:
    """Prepare ABS, from one scale to another."""
    source, output, quant, output_quant = unary(node)
    multiplier = quantized_multiplier(quant.scale / output_quant.scale)
    is_rescaled = quant.scale != output_quant.scale

    def value(integer: int) -> int:
        size = abs(integer - quant.zero_point)
        return output_quant.zero_point + (multiply_twice_rounded(size, multiplier) if is_rescaled else size)

    return by_table(source, output, value)


def prelu(node: OperatorNode) -> Kernel:
    """Prepare PRELU: below zero, values are multiplied by slopes that broadcast."""
    node.expect(2)
    source, slopes = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    output = node.output(0, TensorType.INT8)
    same_shape(source, output)
    quant, slope_quant, output_quant = source.quantization, slopes.quantization, output.quantization
    identity = word_scale((quantized_multiplier(quant.scale / output_quant.scale),))
    product = word_scale((quantized_multiplier(quant.scale * slope_quant.scale / output_quant.scale),))

    def value(values: npt.NDArray[np.int64], slope: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(values >= 0, identity(values), product(values * slope))

    def numbers(zero_point: int) -> npt.NDArray[np.int64]:
        return int8_table(lambda integer: integer - zero_point)

    table = pair_table(value, numbers(quant.zero_point), numbers(slope_quant.zero_point))
    table = np.clip(table + output_quant.zero_point, INT8_MIN, INT8_MAX).astype(np.int8)
    return by_pairs(source, slopes, output, table)
