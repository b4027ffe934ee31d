"""Operators of float32 that take many elements to one: SOFTMAX, MEAN, SUM.

Sources: `softmax.h`, `reduce.h` of TensorFlow Lite.
"""

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, same_shape
from aisrv.addons.kernels.network.operators.floats.tensors import float_input, float_output, quiet
from aisrv.addons.kernels.network.operators.reductions import reduction_of
from aisrv.model import TensorType


def softmax(node: OperatorNode) -> Kernel:
    """Prepare SOFTMAX over the last dimension."""
    node.expect(1)
    source, output = float_input(node), float_output(node)
    same_shape(source, output)
    if not source.shape:
        raise NetworkError("a scalar has no classes")
    beta, read, write = np.float32(node.options.beta), source.array, output.array

    def kernel() -> None:
        powers = np.exp((read - read.max(axis=-1, keepdims=True)) * beta)
        np.divide(powers, powers.sum(axis=-1, keepdims=True), out=write)

    return quiet(kernel)


def mean(node: OperatorNode) -> Kernel:
    """Prepare MEAN."""
    found = reduction_of(node, TensorType.FLOAT32)
    read, write = found.source.array, found.output.array.reshape(found.kept)
    axes, count = found.axes, np.float32(found.count)
    return quiet(lambda: np.divide(read.sum(axis=axes, keepdims=True), count, out=write))


def sum_(node: OperatorNode) -> Kernel:
    """Prepare SUM."""
    found = reduction_of(node, TensorType.FLOAT32)
    read, write, axes = found.source.array, found.output.array.reshape(found.kept), found.axes
    return quiet(lambda: np.sum(read, axis=axes, keepdims=True, out=write))
