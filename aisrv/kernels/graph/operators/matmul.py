"""BATCH_MATMUL of int8, of two tensors that are both computed. Source: `batch_matmul.h`."""

import numpy as np

from aisrv.kernels.arithmetic import INT8_MAX, INT8_MIN, float32, quantized_multiplier
from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, expect_shape
from aisrv.kernels.graph.operators.vectors import multiply
from aisrv.model import TensorType


def batch_matmul(node: OperatorNode) -> Kernel:
    """Prepare BATCH_MATMUL: matrices in the last two dimensions, the others broadcast."""
    node.expect(2)
    one, two = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    output = node.output(0, TensorType.INT8)
    if min(len(one.shape), len(two.shape)) < 2:
        raise GraphError(f"{one} and {two} have shapes {list(one.shape)} and {list(two.shape)}: no matrices")
    left, right = one.array, two.array
    if node.options.integer("adj_x"):
        left = left.swapaxes(-1, -2)
    if node.options.integer("adj_y"):
        right = right.swapaxes(-1, -2)
    if left.shape[-1] != right.shape[-2]:
        raise GraphError(f"rows of {left.shape[-1]} elements do not multiply columns of {right.shape[-2]}")
    try:
        batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise GraphError(
            f"batches of shapes {list(left.shape[:-2])} and {list(right.shape[:-2])} do not broadcast"
        ) from None
    expect_shape(output, (*batches, left.shape[-2], right.shape[-1]))
    quant1, quant2, output_quant = one.quantization, two.quantization, output.quantization
    multiplier = quantized_multiplier(float32(quant1.scale * quant2.scale) / output_quant.scale)
    write = output.array

    def kernel() -> None:
        # Float64 holds every sum exactly, and is what BLAS multiplies.
        sums = (left.astype(np.float64) - quant1.zero_point) @ (right.astype(np.float64) - quant2.zero_point)
        values = multiply(sums.astype(np.int64), multiplier) + output_quant.zero_point
        np.clip(values, INT8_MIN, INT8_MAX, out=write, casting="unsafe")

    return kernel
