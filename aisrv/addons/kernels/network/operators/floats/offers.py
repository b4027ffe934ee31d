"""Operators of float32 that a backend may compute: first they are checked and prepared here, then offered.

A backend that has kernels of float32 takes an operator, or leaves it with NotImplementedError; so every error
is the same with all backends. It gets constants for weights and biases.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

from aisrv.addons.kernels.backend import Kernel, float32_kernels
from aisrv.addons.kernels.checks import Params
from aisrv.addons.kernels.network.operator_node import OperatorNode, shape4
from aisrv.addons.kernels.network.operators.elementwise import broadcast, repeated
from aisrv.addons.kernels.network.operators.floats import convolutions, elements, pools, products, reductions
from aisrv.addons.kernels.network.operators.floats.transposed import transposed_conv2d
from aisrv.addons.kernels.network.operators.reductions import reduction_of
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.params import (
    UNQUANTIZED,
    Bias,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    FunctionParams,
    MeanParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
    SubParams,
)
from aisrv.model import TensorType

_Prepare: TypeAlias = Callable[[OperatorNode], Kernel]
Convolution = TypeVar("Convolution", Conv2dParams, DepthwiseConv2dParams)
Pair = TypeVar("Pair", ElementwiseAddParams, MulParams, SubParams)
Repeating = TypeVar("Repeating", MulParams, SubParams)


def _offered(method: str, prepare: _Prepare, params_of: Callable[[OperatorNode], Params]) -> _Prepare:
    """Prepare an operator here; then the backend's kernel of it, where it has one."""

    def prepare_both(node: OperatorNode) -> Kernel:
        kernel = prepare(node)
        kernels = float32_kernels(node.backend)
        if not hasattr(kernels, method):
            return kernel
        try:
            taken: Kernel = getattr(kernels, method)(params_of(node))
        except NotImplementedError:
            return kernel
        return taken

    return prepare_both


def _conv2d(node: OperatorNode) -> Conv2dParams:
    if shape4(node.input(0))[3] != shape4(node.input(1))[3]:
        raise NotImplementedError("groups of channels")
    return _convolution(Conv2dParams, node, {})


def transpose_conv(node: OperatorNode) -> Kernel:
    """Prepare TRANSPOSE_CONV here; then by the backend's CONV_2D, where it takes its parts."""
    kernel = convolutions.transpose_conv(node)
    kernels = float32_kernels(node.backend)
    if kernels is None:
        return kernel
    try:
        return transposed_conv2d(_convolution(Conv2dParams, node, {}, data=2), kernels.conv2d)
    except NotImplementedError:
        return kernel


def _depthwise_conv2d(node: OperatorNode) -> DepthwiseConv2dParams:
    multiplier = shape4(node.input(1))[3] // shape4(node.input(0))[3]
    return _convolution(DepthwiseConv2dParams, node, {"depth_multiplier": multiplier})


def _convolution(
    kind: Callable[..., Convolution], node: OperatorNode, more: Mapping[str, int], *, data: int = 0
) -> Convolution:
    """Read the parameters of a convolution; `data` is the number of the input, the bias comes behind."""
    source, weights, output, options = node.input(data), _weights(node), node.output(), node.options
    return kind(
        input=source.elements,
        input_shape=shape4(source),
        input_quant=UNQUANTIZED,
        weights=weights.elements,
        weights_shape=shape4(weights),
        weights_quant=UNQUANTIZED,
        weights_per_channel_quant=None,
        bias=_bias(node, max(2, data + 1)),
        output=output.elements,
        output_shape=shape4(output),
        output_quant=UNQUANTIZED,
        stride_w=options.stride_w,
        stride_h=options.stride_h,
        dilation_w_factor=options.dilation_w,
        dilation_h_factor=options.dilation_h,
        padding=options.padding,
        activation=node.activation,
        **more,
    )


def _fully_connected(node: OperatorNode) -> FullyConnectedParams:
    weights = _weights(node)
    outputs, inputs = weights.shape
    return FullyConnectedParams(
        input=node.input(0).elements,
        input_quant=UNQUANTIZED,
        weights=weights.elements,
        weights_shape=(outputs, inputs),
        weights_quant=UNQUANTIZED,
        weights_per_channel_quant=None,
        bias=_bias(node),
        output=node.output().elements,
        output_depth=outputs,
        output_quant=UNQUANTIZED,
        activation=node.activation,
    )


def _weights(node: OperatorNode) -> NetworkTensor:
    weights = node.input(1)
    if not weights.tensor.is_constant:
        raise NotImplementedError("weights that are computed")
    return weights


def _bias(node: OperatorNode, number: int = 2) -> Bias | None:
    bias = node.optional_input(number)
    if bias is not None and not bias.tensor.is_constant:
        raise NotImplementedError("a bias that is computed")
    return None if bias is None else bias.elements


def _pool(node: OperatorNode) -> PoolParams:
    source, output, options = node.input(0), node.output(), node.options
    return PoolParams(
        input=source.elements,
        input_shape=shape4(source),
        input_quant=UNQUANTIZED,
        output=output.elements,
        output_shape=shape4(output),
        output_quant=UNQUANTIZED,
        stride_w=options.stride_w,
        stride_h=options.stride_h,
        filter_w=options.kernel_w,
        filter_h=options.kernel_h,
        padding=options.padding,
        activation=node.activation,
    )


def _softmax(node: OperatorNode) -> SoftmaxParams:
    source, beta = node.input(0), node.options.beta
    if not (math.isfinite(beta) and beta > 0):
        raise NotImplementedError(f"beta is {beta}")
    return SoftmaxParams(
        input=source.elements,
        input_shape=(math.prod(source.shape[:-1]), source.shape[-1]),
        input_quant=UNQUANTIZED,
        output=node.output().elements,
        output_quant=UNQUANTIZED,
        beta=beta,
    )


def _add(node: OperatorNode) -> ElementwiseAddParams:
    one, two = (broadcast(node.input(number), node.output()) for number in range(2))
    return _pair(ElementwiseAddParams, node, one, two)


def _mul(node: OperatorNode) -> MulParams:
    return _repeating(MulParams, node)


def _sub(node: OperatorNode) -> SubParams:
    return _repeating(SubParams, node)


def _repeating(kind: type[Repeating], node: OperatorNode) -> Repeating:
    output = node.output()
    one, two = (repeated(node.input(number), output) for number in range(2))
    if max(len(one[0]), len(two[0])) < len(output.elements):
        two = broadcast(node.input(1), output)
    return _pair(kind, node, one, two)


def _pair(
    kind: type[Pair],
    node: OperatorNode,
    one: tuple[memoryview, Kernel | None],
    two: tuple[memoryview, Kernel | None],
) -> Pair:
    if one[1] is not None or two[1] is not None:
        raise NotImplementedError("a computed input that broadcasts")
    return kind(
        input1=one[0],
        input1_quant=UNQUANTIZED,
        input2=two[0],
        input2_quant=UNQUANTIZED,
        output=node.output().elements,
        output_quant=UNQUANTIZED,
        activation=node.activation,
    )


def _mean(node: OperatorNode) -> MeanParams:
    found = reduction_of(node, TensorType.FLOAT32)
    shape = found.source.shape
    if not found.axes or 0 in shape:
        raise NotImplementedError("a mean of nothing")
    # Dimensions of one element lie in nobody's way.
    reduced = [axis for axis in found.axes if shape[axis] != 1] or found.axes[:1]
    first, last = reduced[0], reduced[-1] + 1
    if math.prod(shape[first:last]) != found.count:
        raise NotImplementedError("dimensions that are not neighbors")
    return MeanParams(
        input=found.source.elements,
        input_shape=(math.prod(shape[:first]), found.count, math.prod(shape[last:])),
        output=found.output.elements,
    )


def _function(node: OperatorNode) -> FunctionParams:
    return FunctionParams(input=node.input(0).elements, output=node.output().elements)


conv2d: Final = _offered("conv2d", convolutions.conv2d, _conv2d)
depthwise_conv2d: Final = _offered("depthwise_conv2d", convolutions.depthwise_conv2d, _depthwise_conv2d)
fully_connected: Final = _offered("fully_connected", products.fully_connected, _fully_connected)
average_pool: Final = _offered("avg_pool", pools.average_pool, _pool)
max_pool: Final = _offered("max_pool", pools.max_pool, _pool)
softmax: Final = _offered("softmax", reductions.softmax, _softmax)
add: Final = _offered("add", elements.add, _add)
multiply: Final = _offered("mul", elements.multiply, _mul)
subtract: Final = _offered("sub", elements.subtract, _sub)
mean: Final = _offered("mean", reductions.mean, _mean)
logistic: Final = _offered("logistic", elements.logistic, _function)
tanh: Final = _offered("tanh", elements.tanh, _function)
