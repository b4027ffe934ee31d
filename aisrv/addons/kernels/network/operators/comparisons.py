"""Comparisons, extremes and logic, of inputs that broadcast.

Numbers without a scale are compared as they are, int8 in a common fixed-point format. Sources:
`comparisons.h`, `comparisons_common.cc` and `maximum_minimum.h` of TensorFlow Lite Micro.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.arithmetic import multiply_twice_rounded, quantized_multiplier
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.elementwise import pair_table
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, combined, same_shape, same_type
from aisrv.addons.kernels.network.operators.lookup import by_pairs, int8_table
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

_LEFT_SHIFT: Final = 8
_NUMBERS: Final = (TensorType.INT8, TensorType.INT32, TensorType.INT64, TensorType.FLOAT32)
_EXTREMES: Final = (
    TensorType.INT8,
    TensorType.INT16,
    TensorType.INT32,
    TensorType.INT64,
    TensorType.FLOAT32,
)
"""Types whose elements are compared as they are, whatever their scales."""


def equal(node: OperatorNode) -> Kernel:
    """Prepare EQUAL."""
    return _compare(node, np.equal, *_NUMBERS, TensorType.BOOL)


def not_equal(node: OperatorNode) -> Kernel:
    """Prepare NOT_EQUAL."""
    return _compare(node, np.not_equal, *_NUMBERS, TensorType.BOOL)


def greater(node: OperatorNode) -> Kernel:
    """Prepare GREATER."""
    return _compare(node, np.greater, *_NUMBERS)


def greater_equal(node: OperatorNode) -> Kernel:
    """Prepare GREATER_EQUAL."""
    return _compare(node, np.greater_equal, *_NUMBERS)


def less(node: OperatorNode) -> Kernel:
    """Prepare LESS."""
    return _compare(node, np.less, *_NUMBERS)


def less_equal(node: OperatorNode) -> Kernel:
    """Prepare LESS_EQUAL."""
    return _compare(node, np.less_equal, *_NUMBERS)


def _compare(node: OperatorNode, function: Callable[..., Any], *types: TensorType) -> Kernel:
    node.expect(2)
    one, two = node.input(0, *types), node.input(1, *types)
    same_type(one, two)
    output = node.output(0, TensorType.BOOL)
    if one.tensor.type is TensorType.INT8:
        table = pair_table(function, _fixed_point(one), _fixed_point(two))
        return by_pairs(one, two, output, table)
    return combined(function, one, two, output)


def _fixed_point(tensor: NetworkTensor) -> npt.NDArray[np.int64]:
    quant = tensor.quantization
    if quant.scale >= 1:
        raise NetworkError(f"{tensor} has the scale {quant.scale}: only reals of scales below 1 are compared")
    multiplier = quantized_multiplier(quant.scale)
    return int8_table(
        lambda value: multiply_twice_rounded((value - quant.zero_point) << _LEFT_SHIFT, multiplier)
    )


def logical_and(node: OperatorNode) -> Kernel:
    """Prepare LOGICAL_AND."""
    return _compare(node, np.logical_and, TensorType.BOOL)


def logical_or(node: OperatorNode) -> Kernel:
    """Prepare LOGICAL_OR."""
    return _compare(node, np.logical_or, TensorType.BOOL)


def logical_not(node: OperatorNode) -> Kernel:
    """Prepare LOGICAL_NOT."""
    node.expect(1)
    source, output = node.input(0, TensorType.BOOL), node.output(0, TensorType.BOOL)
    same_shape(source, output)
    read, write = source.array, output.array

    def kernel() -> None:
        np.logical_not(read, out=write)

    return kernel


def minimum(node: OperatorNode) -> Kernel:
    """Prepare MINIMUM, of inputs that broadcast."""
    return _extreme(node, np.minimum)


def maximum(node: OperatorNode) -> Kernel:
    """Prepare MAXIMUM, of inputs that broadcast."""
    return _extreme(node, np.maximum)


def _extreme(node: OperatorNode, function: Callable[..., Any]) -> Kernel:
    node.expect(2)
    one, two, output = node.input(0, *_EXTREMES), node.input(1, *_EXTREMES), node.output(0, *_EXTREMES)
    same_type(one, two)
    same_type(one, output)
    return combined(function, one, two, output)
