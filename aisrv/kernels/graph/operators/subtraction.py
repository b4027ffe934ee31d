"""SUB: as ADD, with the second input taken away. Source: `reference/sub.h` of TensorFlow Lite."""

import numpy as np

from aisrv.kernels.arithmetic import (
    ADD_LEFT_SHIFT,
    Multiplier,
    activation_bounds,
    multiply_twice_rounded,
    quantized_multiplier,
)
from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view
from aisrv.kernels.graph.operators.vectors import multiply
from aisrv.kernels.params import QuantParam
from aisrv.model import TensorType


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB, of inputs that broadcast."""
    node.expect(2)
    one, two = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    output = node.output(0, TensorType.INT8)
    quant1, quant2, output_quant = one.quantization, two.quantization, output.quantization
    twice_larger = 2 * max(quant1.scale, quant2.scale)
    table1 = _table(quant1, quantized_multiplier(quant1.scale / twice_larger))
    table2 = _table(quant2, quantized_multiplier(quant2.scale / twice_larger))
    multiplier = quantized_multiplier(twice_larger / ((1 << ADD_LEFT_SHIFT) * output_quant.scale))
    low, high = activation_bounds(node.activation, output_quant)
    index1, index2 = broadcast_view(one, output).view(np.uint8), broadcast_view(two, output).view(np.uint8)
    write, zero_point = output.array, output_quant.zero_point

    def kernel() -> None:
        values = multiply(table1[index1] - table2[index2], multiplier) + zero_point
        np.clip(values, low, high, out=write, casting="unsafe")

    return kernel


def _table(quant: QuantParam, multiplier: Multiplier) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """What each byte, read as int8, contributes."""
    values = (byte - 256 if byte > 127 else byte for byte in range(256))
    return np.array(
        [
            multiply_twice_rounded((value - quant.zero_point) << ADD_LEFT_SHIFT, multiplier)
            for value in values
        ],
        np.int64,
    )
