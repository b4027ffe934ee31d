"""Operators of float32 from one or two elements to one.

Sources: `add.h`, `sub.h`, `mul.h`, `prelu.cc`, `logistic.h`, `tanh.h`, `leaky_relu.h`, `hard_swish.h`,
`activations.cc` and `squared_difference.cc` of TensorFlow Lite (Micro).
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.operator_node import OperatorNode, broadcast_view, same_shape
from aisrv.addons.kernels.network.operators.floats.tensors import (
    Floats,
    finish,
    float_input,
    float_output,
    quiet,
)

_CERTAIN: Final = np.float32(16.619047164916992188)
"""Above it a sigmoid is 1."""
_SMALL: Final = np.float32(-9.0)
"""Below it a sigmoid is an exponential."""


def add(node: OperatorNode) -> Kernel:
    """Prepare ADD, of inputs that broadcast."""
    return _bounded(node, np.add)


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB, of inputs that broadcast."""
    return _bounded(node, np.subtract)


def multiply(node: OperatorNode) -> Kernel:
    """Prepare MUL, of inputs that broadcast."""
    return _bounded(node, np.multiply)


def squared_difference(node: OperatorNode) -> Kernel:
    """Prepare SQUARED_DIFFERENCE, of inputs that broadcast."""
    return _pairs(node, lambda one, two: np.square(one - two))


def prelu(node: OperatorNode) -> Kernel:
    """Prepare PRELU: below zero, values are multiplied by slopes that broadcast."""
    same_shape(float_input(node), float_output(node))
    return _pairs(node, lambda values, slopes: np.where(values >= 0, values, values * slopes))


def logistic(node: OperatorNode) -> Kernel:
    """Prepare LOGISTIC."""
    return _unary(node, _sigmoid)


def tanh(node: OperatorNode) -> Kernel:
    """Prepare TANH."""
    return _unary(node, np.tanh)


def relu(node: OperatorNode) -> Kernel:
    """Prepare RELU."""
    return _unary(node, lambda values: np.where(values < 0, np.float32(0), values))


def relu6(node: OperatorNode) -> Kernel:
    """Prepare RELU6."""
    return _unary(node, lambda values: np.clip(values, np.float32(0), np.float32(6)))


def leaky_relu(node: OperatorNode) -> Kernel:
    """Prepare LEAKY_RELU."""
    alpha = np.float32(node.options.real("alpha"))
    return _unary(node, lambda values: np.where(values > 0, values, values * alpha))


def hard_swish(node: OperatorNode) -> Kernel:
    """Prepare HARD_SWISH: x * relu6(x + 3) / 6."""
    zero, three, six = (np.float32(each) for each in (0, 3, 6))
    return _unary(node, lambda values: values * np.clip(values + three, zero, six) / six)


def absolute(node: OperatorNode) -> Kernel:
    """Prepare ABS."""
    return _unary(node, np.abs)


def _sigmoid(values: Floats) -> Floats:
    one = np.float32(1)
    found = np.where(values > _CERTAIN, one, one / (one + np.exp(-values)))
    return np.where(values < _SMALL, np.exp(values), found)


def _unary(node: OperatorNode, function: Callable[[Floats], Any]) -> Kernel:
    node.expect(1)
    source, output = float_input(node), float_output(node)
    same_shape(source, output)
    read, write = source.array, output.array

    def kernel() -> None:
        write[...] = function(read)

    return quiet(kernel)


def _pairs(node: OperatorNode, function: Callable[[Floats, Floats], Any]) -> Kernel:
    node.expect(2)
    output = float_output(node)
    one, two = (broadcast_view(float_input(node, number), output) for number in range(2))
    write = output.array

    def kernel() -> None:
        write[...] = function(one, two)

    return quiet(kernel)


def _bounded(node: OperatorNode, function: Callable[[Floats, Floats], Any]) -> Kernel:
    """Prepare a function of pairs with a fused activation."""
    node.expect(2)
    output, write = float_output(node), finish(node)
    one, two = (broadcast_view(float_input(node, number), output) for number in range(2))
    return quiet(lambda: write(function(one, two)))
