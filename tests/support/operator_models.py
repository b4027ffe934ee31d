"""Models of one operator, made of a kernel's parameters: for other interpreters to run."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from tflite import ActivationFunctionType, BuiltinOperator, TensorType
from tflite import Padding as FilePadding

from aisrv.kernels.params import (
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    FusedActivation,
    MulParams,
    PoolParams,
    QuantParam,
    SoftmaxParams,
)
from aisrv.model import Padding
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import ABSENT, Network, NetworkOperator, constant_tensor

_FILE_ACTIVATIONS: Final = {
    FusedActivation.NONE: ActivationFunctionType.NONE,
    FusedActivation.RELU: ActivationFunctionType.RELU,
    FusedActivation.RELU6: ActivationFunctionType.RELU6,
    FusedActivation.RELU_N1_TO_1: ActivationFunctionType.RELU_N1_TO_1,
}
_FILE_PADDINGS: Final = {Padding.SAME: FilePadding.SAME, Padding.VALID: FilePadding.VALID}


def operator_model(code: int, params: Any) -> Network:
    """A model of one operator; its inputs and its output are named as the parameters are."""
    writers: dict[int, Callable[[int, Any], Network]] = {
        BuiltinOperator.CONV_2D: _convolution_model,
        BuiltinOperator.DEPTHWISE_CONV_2D: _convolution_model,
        BuiltinOperator.FULLY_CONNECTED: _fully_connected_model,
        BuiltinOperator.AVERAGE_POOL_2D: _pool_model,
        BuiltinOperator.MAX_POOL_2D: _pool_model,
        BuiltinOperator.SOFTMAX: _softmax_model,
        BuiltinOperator.ADD: _elementwise_model,
        BuiltinOperator.MUL: _elementwise_model,
    }
    return writers[code](code, params)


def _quantization(quant: QuantParam) -> Quantization:
    return Quantization.per_tensor(quant.scale, quant.zero_point)


def _activation(name: str, shape: Sequence[int], quant: QuantParam) -> Tensor:
    return Tensor(name, tuple(shape), TensorType.INT8, _quantization(quant))


def _constants(params: Any) -> tuple[Tensor, ...]:
    per_channel = params.weights_per_channel_quant
    if per_channel is None:
        quantization = _quantization(params.weights_quant)
        scales: tuple[float, ...] = (params.weights_quant.scale,)
    else:
        scales = per_channel.scales
        quantization = Quantization.per_channel(scales, per_channel.quantized_dimension)
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)
    found = [constant_tensor("weights", weights, quantization)]
    if params.bias is not None:
        bias_scales = [params.input_quant.scale * scale for scale in scales]
        bias = np.frombuffer(params.bias, np.int32)
        found.append(constant_tensor("bias", bias, Quantization.per_channel(bias_scales, 0)))
    return tuple(found)


def _model(
    code: int, tensors: tuple[Tensor, ...], inputs: tuple[str, ...], options: dict[str, Any]
) -> Network:
    data = tuple(tensor.name for tensor in tensors if tensor.data is None and tensor.name != "output")
    return Network(tensors, (NetworkOperator(code, inputs, ("output",), options),), data, ("output",))


def _convolution_model(code: int, params: Conv2dParams | DepthwiseConv2dParams) -> Network:
    constants = _constants(params)
    options = {
        "padding": _FILE_PADDINGS[params.padding],
        "stride_w": params.stride_w,
        "stride_h": params.stride_h,
        "dilation_w_factor": params.dilation_w_factor,
        "dilation_h_factor": params.dilation_h_factor,
        "fused_activation_function": _FILE_ACTIVATIONS[params.activation],
    }
    if isinstance(params, DepthwiseConv2dParams):
        options["depth_multiplier"] = params.depth_multiplier
    tensors = (
        _activation("input", params.input_shape, params.input_quant),
        *constants,
        _activation("output", params.output_shape, params.output_quant),
    )
    return _model(code, tensors, ("input", *(tensor.name for tensor in constants)), options)


def _fully_connected_model(code: int, params: FullyConnectedParams) -> Network:
    constants = _constants(params)
    outputs, inputs = params.weights_shape
    batch = len(params.input) // inputs
    tensors = (
        _activation("input", (batch, inputs), params.input_quant),
        *constants,
        _activation("output", (batch, outputs), params.output_quant),
    )
    options = {"fused_activation_function": _FILE_ACTIVATIONS[params.activation]}
    bias = ABSENT if params.bias is None else "bias"
    return _model(code, tensors, ("input", "weights", bias), options)


def _pool_model(code: int, params: PoolParams) -> Network:
    tensors = (
        _activation("input", params.input_shape, params.input_quant),
        _activation("output", params.output_shape, params.output_quant),
    )
    options = {
        "padding": _FILE_PADDINGS[params.padding],
        "stride_w": params.stride_w,
        "stride_h": params.stride_h,
        "filter_width": params.filter_w,
        "filter_height": params.filter_h,
        "fused_activation_function": _FILE_ACTIVATIONS[params.activation],
    }
    return _model(code, tensors, ("input",), options)


def _softmax_model(code: int, params: SoftmaxParams) -> Network:
    tensors = (
        _activation("input", params.input_shape, params.input_quant),
        _activation("output", params.input_shape, params.output_quant),
    )
    return _model(code, tensors, ("input",), {"beta": params.beta})


def _elementwise_model(code: int, params: ElementwiseAddParams | MulParams) -> Network:
    shorter = min(len(params.input1), len(params.input2))

    def shape(buffer: memoryview) -> tuple[int, int, int, int]:
        return (1, 1, len(buffer) // shorter, shorter)

    tensors = (
        _activation("input1", shape(params.input1), params.input1_quant),
        _activation("input2", shape(params.input2), params.input2_quant),
        _activation("output", shape(params.output), params.output_quant),
    )
    options = {"fused_activation_function": _FILE_ACTIVATIONS[params.activation]}
    return _model(code, tensors, ("input1", "input2"), options)
