"""MINIMUM and MAXIMUM of elements as they are, whatever their scales. Source: `maximum_minimum.h`."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view, same_type
from aisrv.model import TensorType

_TYPES: Final = (
    TensorType.INT8,
    TensorType.INT16,
    TensorType.INT32,
    TensorType.INT64,
    TensorType.FLOAT32,
)


def minimum(node: OperatorNode) -> Kernel:
    """Prepare MINIMUM, of inputs that broadcast."""
    return _extreme(node, np.minimum)


def maximum(node: OperatorNode) -> Kernel:
    """Prepare MAXIMUM, of inputs that broadcast."""
    return _extreme(node, np.maximum)


def _extreme(node: OperatorNode, function: Callable[..., Any]) -> Kernel:
    node.expect(2)
    one, two, output = node.input(0, *_TYPES), node.input(1, *_TYPES), node.output(0, *_TYPES)
    same_type(one, two)
    same_type(one, output)
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        function(left, right, out=write)

    return kernel
