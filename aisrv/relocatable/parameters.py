"""The parameters of our C kernels as values: the counterpart of the structures in `c/network.h`.

`parameters_of` makes them of what a kernel backend is given. Checks of shapes are the backend interface's
(`aisrv.kernels.checks`); what is added here are the bounds of 32-bit words, which plain Python does not have.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from aisrv.kernels import arithmetic, checks
from aisrv.kernels.arithmetic import INT32_MAX, Multiplier
from aisrv.kernels.params import (
    Buffer,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
)
from aisrv.kernels.softmax import exponential_table
from aisrv.packet import I32, U32, Packet
from aisrv.relocatable.errors import BuildError

KERNELS: Final = (
    "conv_2d",
    "depthwise_conv_2d",
    "fully_connected",
    "average_pool",
    "max_pool",
    "softmax",
    "add",
    "mul",
    "copy",
)
"""The C functions by number."""

_LARGEST_DIFFERENCE: Final = 255
"""Of an int8 value and a zero point."""
_MOST_CLASSES: Final = 4096
"""Of a softmax: the sum of their exponentials fits into 32 bits."""


class Convolution(Packet, byte_order="<", error=BuildError, name="the parameters of a convolution"):
    """`struct convolution`."""

    input: U32
    output: U32
    weights: U32
    bias: U32
    multipliers: U32
    batches: I32
    in_h: I32
    in_w: I32
    in_c: I32
    out_h: I32
    out_w: I32
    out_c: I32
    taps_h: I32
    taps_w: I32
    stride_h: I32
    stride_w: I32
    dilation_h: I32
    dilation_w: I32
    before_h: I32
    before_w: I32
    in_zero: I32
    out_zero: I32
    low: I32
    high: I32
    depth_multiplier: I32


class FullyConnected(
    Packet, byte_order="<", error=BuildError, name="the parameters of a fully connected layer"
):
    """`struct fully_connected`."""

    input: U32
    output: U32
    weights: U32
    bias: U32
    multipliers: U32
    batches: I32
    inputs: I32
    outputs: I32
    in_zero: I32
    weights_zero: I32
    out_zero: I32
    low: I32
    high: I32


class Pool(Packet, byte_order="<", error=BuildError, name="the parameters of a pool"):
    """`struct pool`."""

    input: U32
    output: U32
    batches: I32
    in_h: I32
    in_w: I32
    channels: I32
    out_h: I32
    out_w: I32
    taps_h: I32
    taps_w: I32
    stride_h: I32
    stride_w: I32
    before_h: I32
    before_w: I32
    low: I32
    high: I32


class Softmax(Packet, byte_order="<", error=BuildError, name="the parameters of a softmax"):
    """`struct softmax`."""

    input: U32
    output: U32
    exponentials: U32
    rows: I32
    classes: I32


class Elementwise(Packet, byte_order="<", error=BuildError, name="the parameters of a sum or product"):
    """`struct elementwise`."""

    input1: U32
    input2: U32
    output: U32
    length1: I32
    length2: I32
    length: I32
    zero1: I32
    zero2: I32
    out_zero: I32
    low: I32
    high: I32
    mantissa1: I32
    shift1: I32
    mantissa2: I32
    shift2: I32
    out_mantissa: I32
    out_shift: I32


class Copy(Packet, byte_order="<", error=BuildError, name="the parameters of a copy"):
    """`struct copy`."""

    input: U32
    output: U32
    length: I32


Parameters: TypeAlias = Convolution | FullyConnected | Pool | Softmax | Elementwise | Copy


class Places(Protocol):
    """Where buffers lie, and room for constants."""

    def buffer(self, buffer: Buffer) -> int:
        """The place of a tensor's memory."""

    def constant(self, data: bytes) -> int:
        """The place of a copy of constants, at a multiple of 4."""


class Step(NamedTuple):
    """A call of a kernel."""

    kernel: str
    """The C function; see KERNELS."""
    parameters: Parameters
    multiplications: int


KernelParams: TypeAlias = (
    Conv2dParams
    | DepthwiseConv2dParams
    | FullyConnectedParams
    | PoolParams
    | SoftmaxParams
    | ElementwiseAddParams
    | MulParams
)


def conv_2d(params: Conv2dParams, places: Places) -> Step:
    """CONV_2D."""
    checks.check_conv2d(params)
    taps = params.weights_shape[1] * params.weights_shape[2] * params.weights_shape[3]
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape[0], -1)
    found = _convolution(params, places, np.abs(weights.astype(np.int64)).sum(1), 1)
    return Step("conv_2d", found, len(params.output) * taps)


def depthwise_conv_2d(params: DepthwiseConv2dParams, places: Places) -> Step:
    """DEPTHWISE_CONV_2D."""
    checks.check_depthwise_conv2d(params)
    taps = params.weights_shape[1] * params.weights_shape[2]
    weights = np.frombuffer(params.weights, np.int8).reshape(taps, -1)
    sums = np.abs(weights.astype(np.int64)).sum(0)
    found = _convolution(params, places, sums, params.depth_multiplier)
    return Step("depthwise_conv_2d", found, len(params.output) * taps)


def _convolution(
    params: Conv2dParams | DepthwiseConv2dParams,
    places: Places,
    weight_sums: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    depth_multiplier: int,
) -> Convolution:
    batches, in_h, in_w, in_c = params.input_shape
    _, out_h, out_w, out_c = params.output_shape
    _, taps_h, taps_w, _ = params.weights_shape
    rows, columns = arithmetic.conv_windows(params)
    multipliers = arithmetic.conv_multipliers(params)
    bias = _bias(params.bias, out_c)
    _check_sums(bias, weight_sums, _LARGEST_DIFFERENCE, multipliers)
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    return Convolution(
        input=places.buffer(params.input),
        output=places.buffer(params.output),
        weights=places.constant(bytes(params.weights)),
        bias=places.constant(_words(bias)),
        multipliers=places.constant(_pairs(multipliers)),
        batches=batches,
        in_h=in_h,
        in_w=in_w,
        in_c=in_c,
        out_h=out_h,
        out_w=out_w,
        out_c=out_c,
        taps_h=taps_h,
        taps_w=taps_w,
        stride_h=params.stride_h,
        stride_w=params.stride_w,
        dilation_h=params.dilation_h_factor,
        dilation_w=params.dilation_w_factor,
        before_h=rows.before,
        before_w=columns.before,
        in_zero=params.input_quant.zero_point,
        out_zero=params.output_quant.zero_point,
        low=low,
        high=high,
        depth_multiplier=depth_multiplier,
    )


def fully_connected(params: FullyConnectedParams, places: Places) -> Step:
    """FULLY_CONNECTED."""
    checks.check_fully_connected(params)
    outputs, inputs = params.weights_shape
    weights_zero = params.weights_quant.zero_point if params.weights_per_channel_quant is None else 0
    weights = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).astype(np.int64)
    multipliers = arithmetic.fully_connected_multipliers(params)
    bias = _bias(params.bias, outputs)
    _check_sums(bias, np.abs(weights - weights_zero).sum(1), _LARGEST_DIFFERENCE, multipliers)
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    found = FullyConnected(
        input=places.buffer(params.input),
        output=places.buffer(params.output),
        weights=places.constant(bytes(params.weights)),
        bias=places.constant(_words(bias)),
        multipliers=places.constant(_pairs(multipliers)),
        batches=len(params.input) // inputs,
        inputs=inputs,
        outputs=outputs,
        in_zero=params.input_quant.zero_point,
        weights_zero=weights_zero,
        out_zero=params.output_quant.zero_point,
        low=low,
        high=high,
    )
    return Step("fully_connected", found, len(params.output) * inputs)


def average_pool(params: PoolParams, places: Places) -> Step:
    """AVERAGE_POOL_2D."""
    return Step("average_pool", _pool(params, places), 0)


def max_pool(params: PoolParams, places: Places) -> Step:
    """MAX_POOL_2D."""
    return Step("max_pool", _pool(params, places), 0)


def _pool(params: PoolParams, places: Places) -> Pool:
    checks.check_pool(params)
    batches, in_h, in_w, channels = params.input_shape
    _, out_h, out_w, _ = params.output_shape
    rows, columns = arithmetic.pool_windows(params)
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    return Pool(
        input=places.buffer(params.input),
        output=places.buffer(params.output),
        batches=batches,
        in_h=in_h,
        in_w=in_w,
        channels=channels,
        out_h=out_h,
        out_w=out_w,
        taps_h=params.filter_h,
        taps_w=params.filter_w,
        stride_h=params.stride_h,
        stride_w=params.stride_w,
        before_h=rows.before,
        before_w=columns.before,
        low=low,
        high=high,
    )


def softmax(params: SoftmaxParams, places: Places) -> Step:
    """SOFTMAX."""
    checks.check_softmax(params)
    rows, classes = params.input_shape
    if classes > _MOST_CLASSES:
        raise BuildError(f"SOFTMAX has {classes} classes, the C kernel has room for {_MOST_CLASSES}")
    table = exponential_table(params.beta, params.input_quant.scale)
    found = Softmax(
        input=places.buffer(params.input),
        output=places.buffer(params.output),
        exponentials=places.constant(_words(table)),
        rows=rows,
        classes=classes,
    )
    return Step("softmax", found, 0)


def add(params: ElementwiseAddParams, places: Places) -> Step:
    """ADD."""
    checks.check_add(params)
    one, two, out = arithmetic.add_multipliers(params)
    _check_shift("the sum", 2 * _LARGEST_DIFFERENCE << arithmetic.ADD_LEFT_SHIFT, out)
    return Step("add", _elementwise(params, places, one, two, out), 0)


def mul(params: MulParams, places: Places) -> Step:
    """MUL."""
    checks.check_mul(params)
    out = arithmetic.mul_multiplier(params)
    _check_shift("the product", _LARGEST_DIFFERENCE**2, out)
    nothing = Multiplier(0, 0)
    return Step("mul", _elementwise(params, places, nothing, nothing, out), 0)


def _elementwise(
    params: ElementwiseAddParams | MulParams,
    places: Places,
    one: Multiplier,
    two: Multiplier,
    out: Multiplier,
) -> Elementwise:
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    return Elementwise(
        input1=places.buffer(params.input1),
        input2=places.buffer(params.input2),
        output=places.buffer(params.output),
        length1=len(params.input1),
        length2=len(params.input2),
        length=len(params.output),
        zero1=params.input1_quant.zero_point,
        zero2=params.input2_quant.zero_point,
        out_zero=params.output_quant.zero_point,
        low=low,
        high=high,
        mantissa1=one.mantissa,
        shift1=one.shift,
        mantissa2=two.mantissa,
        shift2=two.shift,
        out_mantissa=out.mantissa,
        out_shift=out.shift,
    )


def _bias(bias: memoryview | None, channels: int) -> Sequence[int]:
    return [0] * channels if bias is None else bias.tolist()


def _words(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def _pairs(multipliers: Sequence[Multiplier]) -> bytes:
    return b"".join(struct.pack("<2i", *multiplier) for multiplier in multipliers)


def _check_sums(
    bias: Sequence[int],
    weight_sums: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    difference: int,
    multipliers: Sequence[Multiplier],
) -> None:
    """Refuse sums that may leave 32 bits, before or after the multiplier's shift to the left."""
    bounds = np.abs(np.asarray(bias, np.int64)) + weight_sums * difference
    for channel, (bound, multiplier) in enumerate(zip(bounds.tolist(), multipliers, strict=True)):
        _check_shift(f"the sum of channel {channel}", bound, multiplier)


def _check_shift(what: str, bound: int, multiplier: Multiplier) -> None:
    if bound << max(multiplier.shift, 0) > INT32_MAX:
        raise BuildError(f"{what} may be {bound} times 2**{max(multiplier.shift, 0)}: more than 32 bits hold")
