"""Operators that reduce dimensions: MEAN, SUM, REDUCE_MAX, ARG_MAX.

Sources: "The INT8 kernel engine", section Arithmetic; `reduce.h`, `arg_min_max.h`.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from aisrv.addons.kernels.arithmetic import Multiplier, quantized_multiplier
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import word_scale, wrapped
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import (
    OperatorNode,
    expect_shape,
    same_quantization,
    same_type,
)
from aisrv.addons.kernels.network.operators.layout import dimension
from aisrv.addons.kernels.network.operators.lookup import limits
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

_SUMMED: Final = (TensorType.INT8, TensorType.INT16)


@dataclass(frozen=True, slots=True)
class Reduction:
    """The tensors of a reduction, and the dimensions that it reduces."""

    source: NetworkTensor
    output: NetworkTensor
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    """The shape of the result where each of them has the extent 1."""

    @property
    def count(self) -> int:
        """The number of elements that become one."""
        return math.prod(self.source.shape[axis] for axis in self.axes)


def reduction_of(node: OperatorNode, *types: TensorType) -> Reduction:
    """Read the operands; the output's own shape says whether the dimensions are kept."""
    node.expect(2)
    source, output = node.input(0, *types), node.output(0, *types)
    axes = tuple(sorted({dimension(axis, source) for axis in node.integers(1)}))
    kept = tuple(1 if i in axes else extent for i, extent in enumerate(source.shape))
    dropped = tuple(extent for i, extent in enumerate(source.shape) if i not in axes)
    if output.shape not in (kept, dropped):
        raise NetworkError(
            f"{output} has shape {list(output.shape)}, expected {list(kept)} or {list(dropped)}"
        )
    return Reduction(source, output, axes, kept)


def mean(node: OperatorNode) -> Kernel:
    """Prepare MEAN."""
    reduction = reduction_of(node, *_SUMMED)
    same_type(reduction.source, reduction.output)
    return _rescaled_sum(reduction, mean_multiplier(reduction.source, reduction.output))


def mean_multiplier(source: NetworkTensor, output: NetworkTensor) -> Multiplier:
    """Return the factor from a sum of the source's elements to their mean in the output."""
    mantissa, shift = quantized_multiplier(source.quantization.scale / output.quantization.scale)
    count = math.prod(source.shape) // math.prod(output.shape)
    # The division by the count goes into the multiplier, as far as 32 bits hold it.
    widening = max(min(count.bit_length() - 1, 32, 31 + shift), 0)
    multiplier = Multiplier((mantissa << widening) // count, shift - widening)
    if multiplier.shift < -62:
        raise NetworkError("the input's scale is too small for the output's")
    return multiplier


def sum_(node: OperatorNode) -> Kernel:
    """Prepare SUM."""
    reduction = reduction_of(node, *_SUMMED)
    same_type(reduction.source, reduction.output)
    return _rescaled_sum(reduction, _rescaling(reduction))


def _rescaling(reduction: Reduction) -> Multiplier:
    return quantized_multiplier(reduction.source.quantization.scale / reduction.output.quantization.scale)


def _rescaled_sum(reduction: Reduction, multiplier: Multiplier) -> Kernel:
    axes, output_quant = reduction.axes, reduction.output.quantization
    read, write = reduction.source.array, reduction.output.array.reshape(reduction.kept)
    low, high = limits(reduction.output)
    scale = word_scale((multiplier,))
    zero_sum = reduction.count * reduction.source.quantization.zero_point

    def kernel() -> None:
        sums = read.sum(axis=axes, dtype=np.int64, keepdims=True) - zero_sum
        values = wrapped(scale(sums) + output_quant.zero_point)
        np.clip(values, low, high, out=write, casting="unsafe")

    return kernel


def reduce_max(node: OperatorNode) -> Kernel:
    """Prepare REDUCE_MAX, of elements as they are."""
    reduction = reduction_of(node, TensorType.INT8, TensorType.FLOAT32)
    same_type(reduction.source, reduction.output)
    same_quantization(reduction.source, reduction.output)
    axes = reduction.axes
    read, write = reduction.source.array, reduction.output.array.reshape(reduction.kept)

    def kernel() -> None:
        np.max(read, axis=axes, keepdims=True, out=write)

    return kernel


def arg_max(node: OperatorNode) -> Kernel:
    """Prepare ARG_MAX along one dimension, which vanishes: the first place of the largest element."""
    node.expect(2)
    source, output = node.input(0, TensorType.INT8, TensorType.FLOAT32), node.output(0, TensorType.INT32)
    axes = node.integers(1)
    if len(axes) != 1:
        raise NetworkError(f"the axes are {axes}, must be one")
    axis = dimension(axes[0], source)
    expect_shape(output, source.shape[:axis] + source.shape[axis + 1 :])
    read, write = source.array, output.array

    def kernel() -> None:
        write[...] = read.argmax(axis=axis)

    return kernel
