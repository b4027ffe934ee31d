"""The operators that a backend computes: from the model's tensors and options to a backend's parameters."""

import math
from typing import Final, TypeVar

from aisrv.addons.kernels.arithmetic import exponential_table, softmax_row
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.checks import CHECKS, Params
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, bound_window, same_shape, shape4
from aisrv.addons.kernels.network.operators.convolutions import grouped_conv2d, transposed_conv2d
from aisrv.addons.kernels.network.operators.weights import (
    WEIGHTS,
    layer_bias,
    layer_weights,
    transposed_bias,
    weights_quantization,
)
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.params import (
    INT16,
    Bias,
    Conv2dParams,
    ConvolutionParams,
    DepthwiseConv2dParams,
    FullyConnectedParams,
    PoolParams,
    QuantParam,
    SoftmaxParams,
)
from aisrv.model import TensorType

Convolution = TypeVar("Convolution", Conv2dParams, DepthwiseConv2dParams)

_ACTIVATIONS: Final = (TensorType.INT8, TensorType.INT16)
_SOFTMAX_OF_INT16: Final = QuantParam(2.0**-16, -(1 << 15))
"""The one quantization of int16 that SOFTMAX of int8 writes."""

_NEAR_ENOUGH: Final = 0.001


def conv2d(node: OperatorNode) -> Kernel:
    """Prepare CONV_2D: input, weights, and bias or none."""
    node.expect(3, optional=1)
    params = _convolution(Conv2dParams, node, layer_bias(node))
    if params.weights_shape[3] == params.input_shape[3]:
        return on_backend(node, "conv2d", params)
    _bound_windows(params)
    elements, kernels = node.kernels(node.input(0))
    return grouped_conv2d(params, kernels, elements)


def transpose_conv(node: OperatorNode) -> Kernel:
    """Prepare TRANSPOSE_CONV: a shape that the output has anyway, weights, input, and bias or none."""
    node.expect(4, optional=1)
    params = _convolution(Conv2dParams, node, transposed_bias(node), data=2)
    bound_window(params.output_shape[1:3], params.weights_shape[1:3], (1, 1))
    elements, kernels = node.kernels(node.input(2))
    return transposed_conv2d(params, kernels, elements, node.backend.conv2d_scratch_size)


def depthwise_conv2d(node: OperatorNode) -> Kernel:
    """Prepare DEPTHWISE_CONV_2D; a depth multiplier of 0 in the file follows from the shapes."""
    node.expect(3, optional=1)
    channels, outputs = (shape4(node.input(number))[3] for number in (0, 1))
    multiplier = node.options.depth_multiplier or outputs // channels
    params = _convolution(DepthwiseConv2dParams, node, layer_bias(node), depth_multiplier=multiplier)
    return on_backend(node, "depthwise_conv2d", params)


def on_backend(node: OperatorNode, method: str, params: Params) -> Kernel:
    """Check parameters, and have the backend prepare a kernel by one of its methods."""
    elements, kernels = node.kernels(node.input(0))
    CHECKS[method](params, elements)
    if isinstance(params, ConvolutionParams | PoolParams):
        _bound_windows(params)
    kernel: Kernel = getattr(kernels, method)(params)
    return kernel


def activations(node: OperatorNode, data: int = 0) -> tuple[NetworkTensor, NetworkTensor]:
    """Return an input, the first unless said otherwise, and the output: both int8 or both int16."""
    source = node.input(data, *_ACTIVATIONS)
    return source, node.output(0, source.tensor.type)


def _convolution(
    kind: type[Convolution], node: OperatorNode, bias: Bias | None, *, data: int = 0, **more: int
) -> Convolution:
    """Read the parameters that all kinds of convolution have; `data` is the number of the input."""
    source, output = activations(node, data)
    weights = node.constant(1, *WEIGHTS)
    options = node.options
    quant, per_channel = weights_quantization(weights)
    if any(() if weights.tensor.quantization is None else weights.tensor.quantization.zero_points):
        raise NetworkError("weights have zero points other than 0, which convolutions do not know")
    return kind(
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
        **more,
    )


def _bound_windows(params: ConvolutionParams | PoolParams) -> None:
    if isinstance(params, PoolParams):
        taps, dilations = (params.filter_h, params.filter_w), (1, 1)
    else:
        taps = params.weights_shape[1:3]
        dilations = params.dilation_h_factor, params.dilation_w_factor
    bound_window(params.input_shape[1:3], taps, dilations)


def fully_connected(node: OperatorNode) -> Kernel:
    """Prepare FULLY_CONNECTED: rows of the input are as long as those of the weights, whatever its shape."""
    node.expect(3, optional=1)
    source, output = activations(node)
    weights = node.constant(1, *WEIGHTS)
    if node.options.integer("weights_format"):
        raise NetworkError("weights are shuffled: only the default format can be read")
    if len(weights.shape) != 2:
        raise NetworkError(f"weights have shape {list(weights.shape)}, must have two dimensions")
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
    return on_backend(node, "fully_connected", params)


def average_pool(node: OperatorNode) -> Kernel:
    """Prepare AVERAGE_POOL_2D."""
    return on_backend(node, "avg_pool", _pool(node))


def max_pool(node: OperatorNode) -> Kernel:
    """Prepare MAX_POOL_2D."""
    return on_backend(node, "max_pool", _pool(node))


def _pool(node: OperatorNode) -> PoolParams:
    node.expect(1)
    (source, output), options = activations(node), node.options
    return PoolParams(
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


def softmax(node: OperatorNode) -> Kernel:
    """Prepare SOFTMAX over the last dimension; from int8 to int16 it is the network's."""
    node.expect(1)
    if node.input(0).tensor.type is TensorType.INT8 and node.output().tensor.type is TensorType.INT16:
        return _softmax_to_int16(node)
    source, output = activations(node)
    same_shape(source, output)
    if not source.shape:
        raise NetworkError("a scalar has no classes")
    params = SoftmaxParams(
        input=source.elements,
        input_shape=(math.prod(source.shape[:-1]), source.shape[-1]),
        input_quant=source.quantization,
        output=output.elements,
        output_quant=output.quantization,
        beta=node.options.beta,
        scratch=node.scratch,
    )
    return on_backend(node, "softmax", params)


def _softmax_to_int16(node: OperatorNode) -> Kernel:
    """Prepare SOFTMAX of int8 with an output of int16. Source: `reference/softmax.h`, of two types."""
    source, output = node.input(0, TensorType.INT8), node.output(0, TensorType.INT16)
    same_shape(source, output)
    if not source.shape:
        raise NetworkError("a scalar has no classes")
    beta, quant = node.options.beta, output.quantization
    if not (math.isfinite(beta) and beta > 0):
        raise NetworkError(f"beta is {beta}, must be a positive number")
    if (
        quant.zero_point != _SOFTMAX_OF_INT16.zero_point
        or abs(quant.scale / _SOFTMAX_OF_INT16.scale - 1) > _NEAR_ENOUGH
    ):
        raise NetworkError(f"{output} must have scale 1/65536 and zero point -32768")
    table = exponential_table(beta, source.quantization.scale)
    classes = source.shape[-1]
    read, write = source.buffer, output.elements
    starts = range(0, len(read), classes)

    def kernel() -> None:
        for start in starts:
            row = read[start : start + classes].tolist()
            for place, value in enumerate(softmax_row(row, table, INT16), start):
                write[place] = value

    return kernel
