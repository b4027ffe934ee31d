"""SUB and SQUARED_DIFFERENCE: both take the second input away, on a scale that fits both.

Sources: `reference/sub.h` of TensorFlow Lite, `squared_difference.cc` of TensorFlow Lite Micro.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import INT8_MAX, INT8_MIN, multiply_twice_rounded, quantized_multiplier
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.elementwise import pair_table, sums
from aisrv.kernels.backends.numpy.words import Numbers, word_scale
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view, symmetric
from aisrv.kernels.graph.operators.lookup import by_pairs, int8_table
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.kernels.params import INT16, ElementwiseAddParams
from aisrv.model import TensorType

_SQUARED_LEFT_SHIFT: Final = 7
"""SQUARED_DIFFERENCE widens its inputs by so many bits: 32 hold the square."""


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB of int8 or int16, of inputs that broadcast: ADD with a minus."""
    node.expect(2)
    one = node.input(0, TensorType.INT8, TensorType.INT16)
    two, output = node.input(1, one.tensor.type), node.output(0, one.tensor.type)
    params = ElementwiseAddParams(
        input1=one.elements,
        input1_quant=one.quantization,
        input2=two.elements,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=node.activation,
    )
    if one.tensor.type is TensorType.INT8:
        return by_pairs(one, two, output, pair_table(sums(params, Numbers(), np.subtract)).astype(np.int8))
    symmetric(one, two, output)
    function = sums(params, Numbers(INT16), np.subtract)
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        write[...] = function(left.astype(np.int64), right.astype(np.int64))

    return kernel


def squared_difference(node: OperatorNode) -> Kernel:
    """Prepare SQUARED_DIFFERENCE of int8, of inputs that broadcast."""
    node.expect(2)
    one, two = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    output = node.output(0, TensorType.INT8)
    quant = output.quantization
    twice_larger = 2 * max(one.quantization.scale, two.quantization.scale)
    first, second = (_widened(each, twice_larger) for each in (one, two))
    squares = pair_table(lambda a, b: (a - b) ** 2, first, second)
    multiplier = quantized_multiplier(
        twice_larger * twice_larger / ((1 << 2 * _SQUARED_LEFT_SHIFT) * quant.scale)
    )
    levels = word_scale((multiplier,))(squares) + quant.zero_point
    return by_pairs(one, two, output, np.clip(levels, INT8_MIN, INT8_MAX).astype(np.int8))


def _widened(tensor: GraphTensor, twice_larger: float) -> npt.NDArray[np.int64]:
    """What each byte stands for, in steps of half the larger scale."""
    scale, zero = tensor.quantization.scale, tensor.quantization.zero_point
    multiplier = quantized_multiplier(scale / twice_larger)
    return int8_table(lambda value: multiply_twice_rounded((value - zero) << _SQUARED_LEFT_SHIFT, multiplier))
