"""SOFTMAX from int8 to int16, in plain integers. Source: `reference/softmax.h`, of two types."""

import math
from typing import Final

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, same_shape
from aisrv.kernels.params import INT16, QuantParam
from aisrv.kernels.softmax import exponential_table, softmax_row
from aisrv.model import TensorType

OUTPUT: Final = QuantParam(2.0**-16, -(1 << 15))
"""The one quantization that is written."""

_NEAR_ENOUGH: Final = 0.001


def softmax_to_int16(node: OperatorNode) -> Kernel:
    """Prepare SOFTMAX of int8 with an output of int16."""
    source, output = node.input(0, TensorType.INT8), node.output(0, TensorType.INT16)
    same_shape(source, output)
    if not source.shape:
        raise GraphError("a scalar has no classes")
    beta, quant = node.options.beta, output.quantization
    if not (math.isfinite(beta) and beta > 0):
        raise GraphError(f"beta is {beta}, must be a positive number")
    if quant.zero_point != OUTPUT.zero_point or abs(quant.scale / OUTPUT.scale - 1) > _NEAR_ENOUGH:
        raise GraphError(f"{output} must have scale 1/65536 and zero point -32768")
    table = exponential_table(beta, source.quantization.scale)
    classes = source.shape[-1]
    read, write = source.buffer, output.elements
    starts = range(0, len(read), classes)

    def kernel() -> None:
        for start in starts:
            row = read[start : start + classes].tolist()
            for place, value in enumerate(softmax_row(row, table, INT16), start):
                write[place] = value

    return kernel
