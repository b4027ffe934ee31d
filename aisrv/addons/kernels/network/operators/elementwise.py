"""ADD, SUB, MUL and SQUARED_DIFFERENCE of inputs that broadcast.

Those of int32 are of numbers as they are, which chains of shapes have; results wrap around. Sources:
`add.cc`, `sub.cc`, `mul.cc` and `squared_difference.cc` of TensorFlow Lite Micro, `reference/sub.h`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.arithmetic import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    INT32_MIN,
    Bounds,
    multiply_twice_rounded,
    quantized_multiplier,
)
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.elementwise import pair_table, sums
from aisrv.addons.kernels.backends.numpy.words import Numbers, word_scale
from aisrv.addons.kernels.errors import UnsupportedActivation
from aisrv.addons.kernels.network.operator_node import OperatorNode, broadcast_view, symmetric
from aisrv.addons.kernels.network.operators.backend_operators import activations, on_backend
from aisrv.addons.kernels.network.operators.lookup import by_pairs, int8_table
from aisrv.addons.kernels.network.tensors import NetworkTensor, typed
from aisrv.addons.kernels.params import INT16, Buffer, ElementwiseAddParams, FusedActivation, MulParams
from aisrv.model import TensorType

_SQUARED_LEFT_SHIFT: Final = 7
"""SQUARED_DIFFERENCE widens its inputs by so many bits: 32 hold the square."""

_BOUNDS: Final = {
    FusedActivation.NONE: Bounds(INT32_MIN, INT32_MAX),
    FusedActivation.RELU: Bounds(0, INT32_MAX),
    FusedActivation.RELU6: Bounds(0, 6),
    FusedActivation.RELU_N1_TO_1: Bounds(-1, 1),
}


def add(node: OperatorNode) -> Kernel:
    """Prepare ADD; of int32, TFLM ignores the fused activation."""
    if _is_int32(node):
        return _combine(node, np.add, _BOUNDS[FusedActivation.NONE])
    return _add_quantized(node)


def subtract(node: OperatorNode) -> Kernel:
    """Prepare SUB."""
    return _combine(node, np.subtract, _bounds(node)) if _is_int32(node) else _subtract_quantized(node)


def multiply(node: OperatorNode) -> Kernel:
    """Prepare MUL."""
    return _combine(node, np.multiply, _bounds(node)) if _is_int32(node) else _multiply_quantized(node)


def _is_int32(node: OperatorNode) -> bool:
    return bool(node.inputs) and node.input(0).tensor.type is TensorType.INT32


def _bounds(node: OperatorNode) -> Bounds:
    bounds = _BOUNDS.get(node.activation)
    if bounds is None:
        raise UnsupportedActivation(f"the activation {node.activation.name} has no int32 kernel")
    return bounds


def _combine(node: OperatorNode, function: Callable[..., Any], bounds: Bounds) -> Kernel:
    node.expect(2)
    one, two = node.input(0, TensorType.INT32), node.input(1, TensorType.INT32)
    output = node.output(0, TensorType.INT32)
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        np.clip(function(left, right), *bounds, out=write)

    return kernel


def _add_quantized(node: OperatorNode) -> Kernel:
    """Prepare ADD, of inputs that broadcast."""
    one, two, output = _pair(node)
    first, second = broadcast(one, output), broadcast(two, output)
    return _elementwise(node, "add", ElementwiseAddParams, first, second)


def _multiply_quantized(node: OperatorNode) -> Kernel:
    """Prepare MUL, of inputs that broadcast; one whose shape ends the other's repeats in the backend."""
    one, two, output = _pair(node)
    first, second = repeated(one, output), repeated(two, output)
    if max(len(first[0]), len(second[0])) < len(output.elements):
        second = broadcast(two, output)
    return _elementwise(node, "mul", MulParams, first, second)


def _pair(node: OperatorNode) -> tuple[NetworkTensor, NetworkTensor, NetworkTensor]:
    node.expect(2)
    one, output = activations(node)
    return one, node.input(1, one.tensor.type), output


_Filled: TypeAlias = tuple[Buffer, Kernel | None]
"""A buffer, and the step that fills it before each run, None without one."""


def _elementwise(
    node: OperatorNode,
    method: str,
    kind: type[ElementwiseAddParams | MulParams],
    first: _Filled,
    second: _Filled,
) -> Kernel:
    output = node.output()
    params = kind(
        input1=first[0],
        input1_quant=node.input(0).quantization,
        input2=second[0],
        input2_quant=node.input(1).quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=node.activation,
    )
    return _after(first[1], second[1], on_backend(node, method, params))


def broadcast(tensor: NetworkTensor, output: NetworkTensor) -> _Filled:
    """Return a buffer of the output's shape."""
    if tensor.shape == output.shape:
        return tensor.elements, None
    view = broadcast_view(tensor, output)
    copy = np.empty(output.shape, view.dtype)
    copy[...] = view

    def fill() -> None:
        copy[...] = view

    buffer = typed(memoryview(copy.reshape(-1).data).cast("B"), tensor.tensor.type)
    return buffer, None if tensor.tensor.is_constant else fill


def repeated(tensor: NetworkTensor, output: NetworkTensor) -> _Filled:
    """Return the buffer itself where its shape ends the output's, so that it repeats; else as `broadcast`."""
    shape = tensor.shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    if len(tensor.shape) <= len(output.shape) and shape == output.shape[len(output.shape) - len(shape) :]:
        return tensor.elements, None
    return broadcast(tensor, output)


def _after(first: Kernel | None, second: Kernel | None, kernel: Kernel) -> Kernel:
    """Return a kernel that first fills its inputs, where that is needed."""
    steps = tuple(step for step in (first, second, kernel) if step is not None)
    if len(steps) == 1:
        return kernel

    def run() -> None:
        for step in steps:
            step()

    return run


def _subtract_quantized(node: OperatorNode) -> Kernel:
    """Prepare SUB of int8 or int16, of inputs that broadcast: ADD with a minus."""
    node.expect(2)
    one = node.input(0, TensorType.INT8, TensorType.INT16)
    two, output = node.input(1, one.tensor.type), node.output(0, one.tensor.type)
    params = ElementwiseAddParams(
        input1=one.elements,
        input1_quant=one.quantization,
        input2=two.elements,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=node.activation,
    )
    if one.tensor.type is TensorType.INT8:
        return by_pairs(one, two, output, pair_table(sums(params, Numbers(), np.subtract)).astype(np.int8))
    symmetric(one, two, output)
    function = sums(params, Numbers(INT16), np.subtract)
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        write[...] = function(left.astype(np.int64), right.astype(np.int64))

    return kernel


def squared_difference(node: OperatorNode) -> Kernel:
    """Prepare SQUARED_DIFFERENCE of int8, of inputs that broadcast."""
    node.expect(2)
    one, two = node.input(0, TensorType.INT8), node.input(1, TensorType.INT8)
    output = node.output(0, TensorType.INT8)
    quant = output.quantization
    twice_larger = 2 * max(one.quantization.scale, two.quantization.scale)
    first, second = (_widened(each, twice_larger) for each in (one, two))
    squares = pair_table(lambda a, b: (a - b) ** 2, first, second)
    multiplier = quantized_multiplier(
        twice_larger * twice_larger / ((1 << 2 * _SQUARED_LEFT_SHIFT) * quant.scale)
    )
    levels = word_scale((multiplier,))(squares) + quant.zero_point
    return by_pairs(one, two, output, np.clip(levels, INT8_MIN, INT8_MAX).astype(np.int8))


def _widened(tensor: NetworkTensor, twice_larger: float) -> npt.NDArray[np.int64]:
    """Table of the value of each byte, in steps of half the larger scale."""
    scale, zero = tensor.quantization.scale, tensor.quantization.zero_point
    multiplier = quantized_multiplier(scale / twice_larger)
    return int8_table(lambda value: multiply_twice_rounded((value - zero) << _SQUARED_LEFT_SHIFT, multiplier))
