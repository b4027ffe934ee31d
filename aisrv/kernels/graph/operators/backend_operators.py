"""The operators that a backend computes: from the model's tensors and options to a backend's parameters."""

import math
from dataclasses import fields
from typing import Any, Final

import numpy as np

from aisrv.kernels.backend import Kernel
from aisrv.kernels.checks import (
    check_add,
    check_conv2d,
    check_depthwise_conv2d,
    check_fully_connected,
    check_mul,
    check_pool,
    check_softmax,
)
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, broadcast_view, same_shape, shape4
from aisrv.kernels.graph.operators.convolutions import grouped_conv2d, transposed_conv2d
from aisrv.kernels.graph.operators.softmax import softmax_to_int16
from aisrv.kernels.graph.operators.weights import (
    WEIGHTS,
    layer_bias,
    layer_weights,
    transposed_bias,
    weights_quantization,
)
from aisrv.kernels.graph.operators.windows import bound_window
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.kernels.params import (
    Bias,
    Buffer,
    Conv2dParams,
    ConvolutionParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
)
from aisrv.model import TensorType

_ACTIVATIONS: Final = (TensorType.INT8, TensorType.INT16)
_FULLY_CONNECTED_OPTIONS = 8


def conv2d(node: OperatorNode) -> Kernel:
    """Prepare CONV_2D: input, weights, and bias or none."""
    node.expect(3, optional=1)
    params = Conv2dParams(**_fields(_convolution(node, layer_bias(node))))
    elements, kernels = node.kernels(node.input(0))
    if params.weights_shape[3] != params.input_shape[3]:
        _bound_convolution(params)
        return grouped_conv2d(params, kernels, elements)
    check_conv2d(params, elements)
    _bound_convolution(params)
    return kernels.conv2d(params)


def transpose_conv(node: OperatorNode) -> Kernel:
    """Prepare TRANSPOSE_CONV: a shape that the output has anyway, weights, input, and bias or none."""
    node.expect(4, optional=1)
    params = Conv2dParams(**_fields(_convolution(node, transposed_bias(node), data=2)))
    bound_window(params.output_shape[1:3], params.weights_shape[1:3], (1, 1))
    elements, kernels = node.kernels(node.input(2))
    return transposed_conv2d(params, kernels, elements, node.backend.conv2d_scratch_size)


def depthwise_conv2d(node: OperatorNode) -> Kernel:
    """Prepare DEPTHWISE_CONV_2D; a depth multiplier of 0 in the file follows from the shapes."""
    node.expect(3, optional=1)
    shared = _convolution(node, layer_bias(node))
    elements, kernels = node.kernels(node.input(0))
    multiplier = node.operator.options.depth_multiplier or shared.weights_shape[3] // shared.input_shape[3]
    params = DepthwiseConv2dParams(**_fields(shared), depth_multiplier=multiplier)
    check_depthwise_conv2d(params, elements)
    _bound_convolution(params)
    return kernels.depthwise_conv2d(params)


def _activations(node: OperatorNode, data: int = 0) -> tuple[GraphTensor, GraphTensor]:
    """Return an input, the first unless said otherwise, and the output: both int8 or both int16."""
    source = node.input(data, *_ACTIVATIONS)
    return source, node.output(0, source.tensor.type)


def _convolution(node: OperatorNode, bias: Bias | None, *, data: int = 0) -> ConvolutionParams:
    """Read the parameters that all kinds of convolution have; `data` is the number of the input."""
    source, output = _activations(node, data)
    weights = node.constant(1, *WEIGHTS)
    options = node.operator.options
    quant, per_channel = weights_quantization(weights)
    if any(() if weights.tensor.quantization is None else weights.tensor.quantization.zero_points):
        raise GraphError("weights have zero points other than 0, which convolutions do not know")
    return ConvolutionParams(
        input=source.elements,
        input_shape=shape4(source),
        input_quant=source.quantization,
        weights=layer_weights(weights),
        weights_shape=shape4(weights),
        weights_quant=quant,
        weights_per_channel_quant=per_channel,
        bias=bias,
        output=output.elements,
        output_shape=shape4(output),
        output_quant=output.quantization,
        stride_w=options.stride_w,
        stride_h=options.stride_h,
        dilation_w_factor=options.dilation_w,
        dilation_h_factor=options.dilation_h,
        padding=options.padding,
        activation=node.activation,
        scratch=node.scratch,
    )


def _fields(params: ConvolutionParams) -> dict[str, Any]:
    return {field.name: getattr(params, field.name) for field in fields(params)}


def _bound_convolution(params: ConvolutionParams) -> None:
    dilations = (params.dilation_h_factor, params.dilation_w_factor)
    bound_window(params.input_shape[1:3], params.weights_shape[1:3], dilations)


def fully_connected(node: OperatorNode) -> Kernel:
    """Prepare FULLY_CONNECTED: rows of the input are as long as those of the weights, whatever its shape."""
    node.expect(3, optional=1)
    source, output = _activations(node)
    weights = node.constant(1, *WEIGHTS)
    if node.options.integer("weights_format"):
        raise GraphError("weights are shuffled: only the default format can be read")
    if len(weights.shape) != 2:
        raise GraphError(f"weights have shape {list(weights.shape)}, must have two dimensions")
    quant, per_channel = weights_quantization(weights)
    params = FullyConnectedParams(
        input=source.elements,
        input_quant=source.quantization,
        weights=layer_weights(weights),
        weights_shape=(weights.shape[0], weights.shape[1]),
        weights_quant=quant,
        weights_per_channel_quant=per_channel,
        bias=layer_bias(node),
        output=output.elements,
        output_depth=weights.shape[0],
        output_quant=output.quantization,
        activation=node.activation,
        scale_product=node.scale_product,
    )
    elements, kernels = node.kernels(source)
    check_fully_connected(params, elements)
    return kernels.fully_connected(params)


def average_pool(node: OperatorNode) -> Kernel:
    """Prepare AVERAGE_POOL_2D."""
    params = _pool(node)
    return node.kernels(node.input(0))[1].avg_pool(params)


def max_pool(node: OperatorNode) -> Kernel:
    """Prepare MAX_POOL_2D."""
    params = _pool(node)
    return node.kernels(node.input(0))[1].max_pool(params)


def _pool(node: OperatorNode) -> PoolParams:
    node.expect(1)
    (source, output), options = _activations(node), node.operator.options
    params = PoolParams(
        input=source.elements,
        input_shape=shape4(source),
        input_quant=source.quantization,
        output=output.elements,
        output_shape=shape4(output),
        output_quant=output.quantization,
        stride_w=options.stride_w,
        stride_h=options.stride_h,
        filter_w=options.kernel_w,
        filter_h=options.kernel_h,
        padding=options.padding,
        activation=node.activation,
    )
    check_pool(params, node.kernels(source)[0])
    bound_window(params.input_shape[1:3], (options.kernel_h, options.kernel_w), (1, 1))
    return params


def softmax(node: OperatorNode) -> Kernel:
    """Prepare SOFTMAX over the last dimension; from int8 to int16 it is the graph's."""
    node.expect(1)
    if node.input(0).tensor.type is TensorType.INT8 and node.output().tensor.type is TensorType.INT16:
        return softmax_to_int16(node)
    source, output = _activations(node)
    same_shape(source, output)
    if not source.shape:
        raise GraphError("a scalar has no classes")
    params = SoftmaxParams(
        input=source.elements,
        input_shape=(math.prod(source.shape[:-1]), source.shape[-1]),
        input_quant=source.quantization,
        output=output.elements,
        output_quant=output.quantization,
        beta=node.operator.options.beta,
        scratch=node.scratch,
    )
    elements, kernels = node.kernels(source)
    check_softmax(params, elements)
    return kernels.softmax(params)


def add(node: OperatorNode) -> Kernel:
    """Prepare ADD, of inputs that broadcast."""
    node.expect(2)
    one, output = _activations(node)
    two = node.input(1, one.tensor.type)
    elements, kernels = node.kernels(one)
    (first, copy_first), (second, copy_second) = broadcast(one, output), broadcast(two, output)
    params = ElementwiseAddParams(
        input1=first,
        input1_quant=one.quantization,
        input2=second,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=node.activation,
    )
    check_add(params, elements)
    return _after(copy_first, copy_second, kernels.add(params))


def mul(node: OperatorNode) -> Kernel:
    """Prepare MUL, of inputs that broadcast; one whose shape ends the other's repeats in the backend."""
    node.expect(2)
    one, output = _activations(node)
    two = node.input(1, one.tensor.type)
    elements, kernels = node.kernels(one)
    (first, copy_first), (second, copy_second) = _repeated(one, output), _repeated(two, output)
    if max(len(first), len(second)) < len(output.elements):
        (second, copy_second) = broadcast(two, output)
    params = MulParams(
        input1=first,
        input1_quant=one.quantization,
        input2=second,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=node.activation,
    )
    check_mul(params, elements)
    return _after(copy_first, copy_second, kernels.mul(params))


def broadcast(tensor: GraphTensor, output: GraphTensor) -> tuple[Buffer, Kernel | None]:
    """Return a buffer of the output's shape, and the step that fills it before each run, None without one."""
    if tensor.shape == output.shape:
        return tensor.elements, None
    view = broadcast_view(tensor, output)
    copy = np.empty(output.shape, view.dtype)
    copy[...] = view

    def fill() -> None:
        copy[...] = view

    buffer = memoryview(copy.reshape(-1).data).cast("B")
    return buffer.cast(
        "h" if tensor.tensor.type is TensorType.INT16 else "b"
    ), None if tensor.tensor.is_constant else fill


def _repeated(tensor: GraphTensor, output: GraphTensor) -> tuple[Buffer, Kernel | None]:
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
