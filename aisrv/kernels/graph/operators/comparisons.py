"""Comparisons and logic, of inputs that broadcast; results are bools.

Numbers without a scale are compared as they are, int8 in a common fixed-point format. Source:
`comparisons.h` and `comparisons_common.cc` of TensorFlow Lite Micro.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import multiply_twice_rounded, quantized_multiplier
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.elementwise import pair_table
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view, same_shape, same_type
from aisrv.kernels.graph.operators.lookup import by_pairs, int8_table
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.model import TensorType

_LEFT_SHIFT: Final = 8
_NUMBERS: Final = (TensorType.INT8, TensorType.INT32, TensorType.INT64, TensorType.FLOAT32)


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
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        function(left, right, out=write)

    return kernel


def _fixed_point(tensor: GraphTensor) -> npt.NDArray[np.int64]:
    quant = tensor.quantization
    if quant.scale >= 1:
        raise GraphError(f"{tensor} has the scale {quant.scale}: only reals of scales below 1 are compared")
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
