"""MEAN over any dimensions of int8 tensors. Source: "The INT8 kernel engine", section Arithmetic."""

import math

import numpy as np

from aisrv.kernels.arithmetic import INT8_MAX, INT8_MIN, Multiplier, quantized_multiplier
from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode
from aisrv.kernels.graph.operators.layout import dimension
from aisrv.kernels.graph.operators.vectors import multiply
from aisrv.model import TensorType


def mean(node: OperatorNode) -> Kernel:
    """Prepare MEAN; the output's own shape says whether the dimensions are kept."""
    node.expect(2)
    source, output = node.input(0, TensorType.INT8), node.output(0, TensorType.INT8)
    axes = tuple(sorted({dimension(axis, source) for axis in node.integers(1)}))
    kept = tuple(1 if i in axes else extent for i, extent in enumerate(source.shape))
    dropped = tuple(extent for i, extent in enumerate(source.shape) if i not in axes)
    if output.shape not in (kept, dropped):
        raise GraphError(f"{output} has shape {list(output.shape)}, expected {list(kept)} or {list(dropped)}")
    count = math.prod(source.shape[axis] for axis in axes)
    quant, output_quant = source.quantization, output.quantization
    mantissa, shift = quantized_multiplier(quant.scale / output_quant.scale)
    # The division by the count goes into the multiplier, as far as 32 bits hold it.
    widening = max(min(count.bit_length() - 1, 32, 31 + shift), 0)
    multiplier = Multiplier((mantissa << widening) // count, shift - widening)
    if multiplier.shift < -62:
        raise GraphError("the input's scale is too small for the output's")
    read, write, zero_sum = source.array, output.array.reshape(kept), count * quant.zero_point

    def kernel() -> None:
        sums = read.sum(axis=axes, dtype=np.int64, keepdims=True) - zero_sum
        np.clip(
            multiply(sums, multiplier) + output_quant.zero_point,
            INT8_MIN,
            INT8_MAX,
            out=write,
            casting="unsafe",
        )

    return kernel
