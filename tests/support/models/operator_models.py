"""Models of one operator, made of a kernel's parameters: for other interpreters to run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from tflite import ActivationFunctionType, BuiltinOperator, TensorType
from tflite import Padding as FilePadding

from aisrv.addons.kernels.params import (
    FLOAT32,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    FunctionParams,
    FusedActivation,
    MeanParams,
    MulParams,
    PoolParams,
    QuantParam,
    SoftmaxParams,
    SubParams,
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
        BuiltinOperator.SUB: _elementwise_model,
        BuiltinOperator.MEAN: _mean_model,
        BuiltinOperator.LOGISTIC: _function_model,
        BuiltinOperator.TANH: _function_model,
    }
    return writers[code](code, params)


def _quantization(quant: QuantParam) -> Quantization:
    return Quantization.per_tensor(quant.scale, quant.zero_point)


def _activation(params: Any, name: str, shape: Sequence[int]) -> Tensor:
    if getattr(params, name).format == FLOAT32.format:
        return Tensor(name, tuple(shape), TensorType.FLOAT32)
    return Tensor(name, tuple(shape), TensorType.INT8, _quantization(getattr(params, f"{name}_quant")))


def _float_constants(params: Any) -> Iterator[Tensor]:
    yield constant_tensor("weights", np.frombuffer(params.weights, np.float32).reshape(params.weights_shape))
    if params.bias is not None:
        yield constant_tensor("bias", np.frombuffer(params.bias, np.float32))


def _constants(params: Any) -> tuple[Tensor, ...]:
    if params.weights.format == FLOAT32.format:
        return tuple(_float_constants(params))
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
        _activation(params, "input", params.input_shape),
        *constants,
        _activation(params, "output", params.output_shape),
    )
    return _model(code, tensors, ("input", *(tensor.name for tensor in constants)), options)


def _fully_connected_model(code: int, params: FullyConnectedParams) -> Network:
    constants = _constants(params)
    outputs, inputs = params.weights_shape
    batch = len(params.input) // inputs
    tensors = (
        _activation(params, "input", (batch, inputs)),
        *constants,
        _activation(params, "output", (batch, outputs)),
    )
    options = {"fused_activation_function": _FILE_ACTIVATIONS[params.activation]}
    bias = ABSENT if params.bias is None else "bias"
    return _model(code, tensors, ("input", "weights", bias), options)


def _pool_model(code: int, params: PoolParams) -> Network:
    tensors = (
        _activation(params, "input", params.input_shape),
        _activation(params, "output", params.output_shape),
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
        _activation(params, "input", params.input_shape),
        _activation(params, "output", params.input_shape),
    )
    return _model(code, tensors, ("input",), {"beta": params.beta})


def _function_model(code: int, params: FunctionParams) -> Network:
    shape = (1, len(params.input))
    tensors = _activation(params, "input", shape), _activation(params, "output", shape)
    return _model(code, tensors, ("input",), {})


def _mean_model(code: int, params: MeanParams) -> Network:
    """A mean of rows and columns where there are both, which TFLM has other code for."""
    outer, count, inner = params.input_shape
    rows = next((each for each in (3, 2) if count % each == 0), 1)
    middle, axes = ((rows, count // rows), [1, 2]) if rows > 1 else ((count,), [1])
    tensors = (
        _activation(params, "input", (outer, *middle, inner)),
        constant_tensor("axes", np.array(axes, np.int32)),
        _activation(params, "output", (outer, *(1 for _ in middle), inner)),
    )
    return _model(code, tensors, ("input", "axes"), {"keep_dims": True})


def _elementwise_model(code: int, params: ElementwiseAddParams | MulParams | SubParams) -> Network:
    shorter = min(len(params.input1), len(params.input2))

    def shape(buffer: memoryview) -> tuple[int, int, int, int]:
        return (1, 1, len(buffer) // shorter, shorter)

    tensors = (
        _activation(params, "input1", shape(params.input1)),
        _activation(params, "input2", shape(params.input2)),
        _activation(params, "output", shape(params.output)),
    )
    options = {"fused_activation_function": _FILE_ACTIVATIONS[params.activation]}
    return _model(code, tensors, ("input1", "input2"), options)
