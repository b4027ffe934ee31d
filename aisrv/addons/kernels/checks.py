"""The checks of a kernel's parameters, before any backend prepares it.

Each `check_` function returns nothing and raises InvalidShape, UnsupportedActivation, or InternalError for a
buffer, scale or zero point that no kernel of its element type can work with. After it, every index that a
kernel computes lies in its buffer. `check_alignment` is for backends that were told to assume alignment.
Source: "The INT8 kernel engine", sections KernelBackend and Arithmetic.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeAlias

from aisrv.addons.kernels.arithmetic import activation_bounds
from aisrv.addons.kernels.errors import AlignmentError, InternalError, InvalidShape
from aisrv.addons.kernels.params import (
    FLOAT32,
    INT8,
    INT16,
    UNQUANTIZED,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementType,
    ElementwiseAddParams,
    FullyConnectedParams,
    FunctionParams,
    MeanParams,
    MulParams,
    PerChannelQuantParam,
    PoolParams,
    QuantParam,
    Shape4,
    SoftmaxParams,
    SubParams,
)
from aisrv.addons.kernels.windows import Window, conv_windows, pool_windows

ALIGNMENT: Final = 16
"""Bytes: where buffers start that an aligned backend is given."""

SOFTMAX_OUTPUT: Final = QuantParam(1 / 256, -128)
"""The one quantization that SOFTMAX of int8 writes."""

_Quantized: TypeAlias = (
    Conv2dParams
    | DepthwiseConv2dParams
    | FullyConnectedParams
    | PoolParams
    | SoftmaxParams
    | ElementwiseAddParams
    | MulParams
    | SubParams
)
Params: TypeAlias = _Quantized | MeanParams | FunctionParams
"""The parameters of any operator."""

_CONV_CHANNELS: Final = 0
_DEPTHWISE_CHANNELS: Final = 3
_UNITS: Final = {"b": "signed bytes", "h": "signed halfwords", "f": "floats"}
_BIAS_FORMATS: Final = {"b": ("i",), "h": ("q", "i"), "f": ("f",)}
_NEAR_ENOUGH: Final = 0.001


def check_conv2d(params: Conv2dParams, elements: ElementType = INT8) -> None:
    """Check CONV_2D."""
    _check_convolution(params, elements, _CONV_CHANNELS)
    out_channels, _, _, in_channels = params.weights_shape
    if in_channels != params.input_shape[3]:
        raise InvalidShape(
            f"weights are for {in_channels} input channels, the input has {params.input_shape[3]}"
        )
    _check_out_channels(out_channels, params.output_shape[3])


def check_depthwise_conv2d(params: DepthwiseConv2dParams, elements: ElementType = INT8) -> None:
    """Check DEPTHWISE_CONV_2D."""
    _check_convolution(params, elements, _DEPTHWISE_CHANNELS)
    _check_positive("depth_multiplier", params.depth_multiplier)
    if params.weights_shape[0] != 1:
        raise InvalidShape(
            f"weights_shape: depthwise weights start with 1, these with {params.weights_shape[0]}"
        )
    if elements is INT16 and params.bias is not None and params.bias.format != "q":
        raise InternalError('bias: of int16 activations, must be signed words of 64 bits (format "q")')
    channels = params.input_shape[3] * params.depth_multiplier
    if params.weights_shape[3] != channels:
        raise InvalidShape(
            f"weights are for {params.weights_shape[3]} channels, the input's {params.input_shape[3]} times "
            f"depth_multiplier {params.depth_multiplier} are {channels}"
        )
    _check_out_channels(channels, params.output_shape[3])


def check_fully_connected(params: FullyConnectedParams, elements: ElementType = INT8) -> None:
    """Check FULLY_CONNECTED."""
    _check_shape("weights", params.weights, params.weights_shape, _weights_type(elements))
    outputs, inputs = params.weights_shape
    if outputs != params.output_depth:
        raise InvalidShape(f"weights are for {outputs} outputs, output_depth is {params.output_depth}")
    _check_elements("input", params.input, elements)
    if not len(params.input) or len(params.input) % inputs:
        raise InvalidShape(f"input has {len(params.input)} values, no multiple of the weights' {inputs}")
    _check_length("output", params.output, len(params.input) // inputs * outputs, elements)
    _check_weights_quant(
        params.weights_quant, params.weights_per_channel_quant, outputs, _CONV_CHANNELS, elements
    )
    _check_bias(params.bias, outputs, elements)
    _check_quant("input_quant", params.input_quant, elements)
    _check_output(params, elements)
    activation_bounds(params.activation, params.output_quant, elements)


def check_pool(params: PoolParams, elements: ElementType = INT8) -> None:
    """Check AVERAGE_POOL_2D and MAX_POOL_2D."""
    _check_shape("input", params.input, params.input_shape, elements)
    _check_shape("output", params.output, params.output_shape, elements)
    for name in ("stride_w", "stride_h", "filter_w", "filter_h"):
        _check_positive(name, getattr(params, name))
    if params.output_shape[3] != params.input_shape[3]:
        raise InvalidShape(
            f"a pool keeps its channels: the input has {params.input_shape[3]}, "
            f"the output {params.output_shape[3]}"
        )
    _check_output_size(params.input_shape, params.output_shape, pool_windows(params))
    _check_quant("input_quant", params.input_quant, elements)
    _check_output(params, elements)
    activation_bounds(params.activation, params.output_quant, elements)


def check_softmax(params: SoftmaxParams, elements: ElementType = INT8) -> None:
    """Check SOFTMAX: the output's quantization is fixed."""
    _check_shape("input", params.input, params.input_shape, elements)
    _check_length("output", params.output, len(params.input), elements)
    _check_quant("input_quant", params.input_quant, elements)
    _check_output(params, elements)
    if elements is INT16:
        # As TensorFlow Lite Micro, which lets converters be a thousandth off.
        if abs(params.output_quant.scale * (1 << 15) - 1) > _NEAR_ENOUGH:
            raise InternalError(
                f"output_quant: SOFTMAX of int16 writes scale 1/32768, not {params.output_quant.scale}"
            )
    elif elements is INT8 and params.output_quant != SOFTMAX_OUTPUT:
        raise InternalError(
            f"output_quant: SOFTMAX writes scale 1/256 and zero point -128, "
            f"not {params.output_quant.scale} and {params.output_quant.zero_point}"
        )
    if not (math.isfinite(params.beta) and params.beta > 0):
        raise InternalError(f"beta: must be a positive number, is {params.beta}")


def check_add(params: ElementwiseAddParams, elements: ElementType = INT8) -> None:
    """Check ADD: all lengths are one."""
    _check_elementwise(params, elements)
    if len(params.input1) != len(params.input2):
        raise InvalidShape(f"input1 has {len(params.input1)} values, input2 {len(params.input2)}")


def check_mul(params: MulParams | SubParams, elements: ElementType = INT8) -> None:
    """Check MUL or SUB: the shorter input's length divides the longer's, which is the output's."""
    _check_elementwise(params, elements)
    shorter, longer = sorted((len(params.input1), len(params.input2)))
    if longer % shorter:
        raise InvalidShape(
            f"inputs of {len(params.input1)} and {len(params.input2)} values do not go into each other"
        )


def check_mean(params: MeanParams, elements: ElementType = FLOAT32) -> None:
    """Check MEAN."""
    _check_shape("input", params.input, params.input_shape, elements)
    outer, _, inner = params.input_shape
    _check_length("output", params.output, outer * inner, elements)
    _check_writable(params.output)


def check_function(params: FunctionParams, elements: ElementType = FLOAT32) -> None:
    """Check a function from value to value."""
    _check_elements("input", params.input, elements)
    _check_length("output", params.output, len(params.input), elements)
    _check_writable(params.output)


CHECKS: Final[Mapping[str, Callable[[Any, ElementType], None]]] = {
    "conv2d": check_conv2d,
    "depthwise_conv2d": check_depthwise_conv2d,
    "fully_connected": check_fully_connected,
    "avg_pool": check_pool,
    "max_pool": check_pool,
    "softmax": check_softmax,
    "add": check_add,
    "mul": check_mul,
    "sub": check_mul,
    "mean": check_mean,
    "logistic": check_function,
    "tanh": check_function,
}
"""The check of each method of a backend."""


def check_alignment(params: Params) -> None:
    """Raise AlignmentError for the first buffer that does not start at a multiple of 16 bytes."""
    for name, buffer in buffers(params):
        beyond = address(buffer) % ALIGNMENT
        if beyond:
            raise AlignmentError(
                f"{name} starts {beyond} bytes beyond a multiple of {ALIGNMENT}, and is assumed to be aligned"
            )


def buffers(params: Params) -> Iterator[tuple[str, memoryview]]:
    """Every buffer of the parameters that holds anything, with its name."""
    for each in fields(params):
        value = getattr(params, each.name)
        if isinstance(value, memoryview) and value.nbytes:
            yield each.name, value


def address(buffer: memoryview) -> int:
    """Return the address of a buffer that is not empty."""
    import numpy as np

    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


def _check_convolution(
    params: Conv2dParams | DepthwiseConv2dParams, elements: ElementType, channels_dimension: int
) -> None:
    _check_shape("input", params.input, params.input_shape, elements)
    _check_shape("weights", params.weights, params.weights_shape, _weights_type(elements))
    _check_shape("output", params.output, params.output_shape, elements)
    for name in ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"):
        _check_positive(name, getattr(params, name))
    _check_output_size(params.input_shape, params.output_shape, conv_windows(params))
    channels = params.output_shape[3]
    _check_weights_quant(
        params.weights_quant, params.weights_per_channel_quant, channels, channels_dimension, elements
    )
    _check_bias(params.bias, channels, elements)
    _check_quant("input_quant", params.input_quant, elements)
    _check_output(params, elements)
    activation_bounds(params.activation, params.output_quant, elements)


def _check_elementwise(params: ElementwiseAddParams | MulParams | SubParams, elements: ElementType) -> None:
    for name in ("input1", "input2"):
        buffer = getattr(params, name)
        _check_elements(name, buffer, elements)
        if not len(buffer):
            raise InvalidShape(f"{name} is empty")
        _check_quant(f"{name}_quant", getattr(params, f"{name}_quant"), elements)
    _check_length("output", params.output, max(len(params.input1), len(params.input2)), elements)
    _check_output(params, elements)
    activation_bounds(params.activation, params.output_quant, elements)


def _check_elements(name: str, buffer: memoryview, elements: ElementType) -> None:
    if buffer.format != elements.format or buffer.ndim != 1 or not buffer.contiguous:
        raise InternalError(
            f'{name}: must be one contiguous run of {_UNITS[elements.format]} (format "{elements.format}")'
        )


def _check_length(name: str, buffer: memoryview, length: int, elements: ElementType) -> None:
    _check_elements(name, buffer, elements)
    if len(buffer) != length:
        raise InvalidShape(f"{name} has {len(buffer)} values, needs {length}")


def _check_shape(name: str, buffer: memoryview, shape: Sequence[int], elements: ElementType) -> None:
    if min(shape) < 1:
        raise InvalidShape(f"{name}_shape: dimensions must be positive, these are {list(shape)}")
    _check_elements(name, buffer, elements)
    if len(buffer) != math.prod(shape):
        raise InvalidShape(
            f"{name} has {len(buffer)} values, its shape {list(shape)} needs {math.prod(shape)}"
        )


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise InvalidShape(f"{name}: must be positive, is {value}")


def _check_out_channels(weights: int, output: int) -> None:
    if weights != output:
        raise InvalidShape(f"weights are for {weights} output channels, the output has {output}")


def _check_output_size(inputs: Shape4, outputs: Shape4, windows: tuple[Window, Window]) -> None:
    wanted = (inputs[0], windows[0].outputs, windows[1].outputs)
    if outputs[:3] != wanted:
        raise InvalidShape(
            f"output_shape: batch, height and width must be {list(wanted)}, they are {list(outputs[:3])}"
        )


def _check_scale(name: str, scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0):
        raise InternalError(f"{name}: a scale must be a positive number, is {scale}")


def _weights_type(elements: ElementType) -> ElementType:
    """The type of weights beside activations."""
    return FLOAT32 if elements is FLOAT32 else INT8


def _check_quant(name: str, quant: QuantParam, elements: ElementType) -> None:
    if elements is FLOAT32 and quant != UNQUANTIZED:
        raise InternalError(f"{name}: float32 has scale 1 and zero point 0, not {quant}")
    _check_scale(name, quant.scale)
    if elements is INT16 and quant.zero_point != 0:
        raise InternalError(f"{name}: the zero point of int16 must be 0, is {quant.zero_point}")
    if not elements.low <= quant.zero_point <= elements.high:
        raise InternalError(f"{name}: the zero point {quant.zero_point} is outside of {elements.name}")


def _check_output(params: _Quantized, elements: ElementType) -> None:
    _check_quant("output_quant", params.output_quant, elements)
    _check_writable(params.output)


def _check_writable(output: memoryview) -> None:
    if output.readonly:
        raise InternalError("output: must be writable")


def _check_weights_quant(
    quant: QuantParam,
    per_channel: PerChannelQuantParam | None,
    channels: int,
    dimension: int,
    elements: ElementType,
) -> None:
    if per_channel is None:
        _check_quant("weights_quant", quant, _weights_type(elements))
        return
    name, count = "weights_per_channel_quant", len(per_channel.scales)
    if count not in (1, channels):
        raise InvalidShape(f"{name}: {count} scales for {channels} output channels")
    # A single scale is for all channels, whatever dimension a converter left behind.
    if count > 1 and per_channel.quantized_dimension != dimension:
        raise InvalidShape(
            f"{name}: output channels are dimension {dimension}, not {per_channel.quantized_dimension}"
        )
    for scale in per_channel.scales:
        _check_scale(name, scale)


def _check_bias(bias: memoryview | None, channels: int, elements: ElementType) -> None:
    if bias is None:
        return
    formats = _BIAS_FORMATS[elements.format]
    if bias.format not in formats or bias.ndim != 1 or not bias.contiguous:
        names = " or ".join(f'"{each}"' for each in formats)
        words = "floats" if elements is FLOAT32 else "signed words"
        raise InternalError(f"bias: must be one contiguous run of {words} (format {names})")
    if len(bias) != channels:
        raise InvalidShape(f"bias has {len(bias)} values for {channels} output channels")
