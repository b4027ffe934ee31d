"""BATCH_MATMUL of int8 or int16, of two tensors that are both computed. Source: `batch_matmul.h`."""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import Multiplier, multiply_scales, quantized_multiplier
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import Scale, wide_scale, word_scale, wrapped
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, expect_shape, symmetric
from aisrv.addons.kernels.network.operators.lookup import limits
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

Matrices: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[int, ...]]

_DEEPEST_INT16: Final = 1 << 17
"""So many products of two int16 may leave 47 bits."""


def batch_matmul(node: OperatorNode) -> Kernel:
    """Prepare BATCH_MATMUL: matrices in the last two dimensions, the others broadcast."""
    node.expect(2)
    one = node.input(0, TensorType.INT8, TensorType.INT16)
    two, output = node.input(1, one.tensor.type), node.output(0, one.tensor.type)
    left, right, shape = matrices(node, one, two)
    expect_shape(output, shape)
    quant1, quant2, output_quant = one.quantization, two.quantization, output.quantization
    product = multiply_scales(quant1.scale, quant2.scale, node.scale_product)
    multiplier = quantized_multiplier(product / output_quant.scale)
    scale = word_scale((multiplier,))
    if one.tensor.type is TensorType.INT16:
        scale = _wide_scale((one, two, output), multiplier, left.shape[-1])
    write, (low, high) = output.array, limits(output)

    def kernel() -> None:
        # Float64 holds every sum exactly, and is what BLAS multiplies.
        sums = (left.astype(np.float64) - quant1.zero_point) @ (right.astype(np.float64) - quant2.zero_point)
        values = wrapped(scale(sums.astype(np.int64)) + output_quant.zero_point)
        np.clip(values, low, high, out=write, casting="unsafe")

    return kernel


def matrices(node: OperatorNode, one: NetworkTensor, two: NetworkTensor) -> Matrices:
    """Return both operands as matrices that multiply, and the shape of their product."""
    if min(len(one.shape), len(two.shape)) < 2:
        raise NetworkError(
            f"{one} and {two} have shapes {list(one.shape)} and {list(two.shape)}: no matrices"
        )
    left, right = one.array, two.array
    if node.options.integer("adj_x"):
        left = left.swapaxes(-1, -2)
    if node.options.integer("adj_y"):
        right = right.swapaxes(-1, -2)
    if left.shape[-1] != right.shape[-2]:
        raise NetworkError(f"rows of {left.shape[-1]} elements do not multiply columns of {right.shape[-2]}")
    try:
        batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise NetworkError(
            f"batches of shapes {list(left.shape[:-2])} and {list(right.shape[:-2])} do not broadcast"
        ) from None
    return left, right, (*batches, left.shape[-2], right.shape[-1])


def _wide_scale(tensors: tuple[NetworkTensor, ...], multiplier: Multiplier, depth: int) -> Scale:
    """Scale sums of int16 in 64 bits."""
    symmetric(*tensors)
    if depth >= _DEEPEST_INT16:
        raise NetworkError(f"sums of {depth} products of int16 may leave 47 bits")
    int16.check_wide((multiplier,), None)
    return wide_scale((multiplier,))
