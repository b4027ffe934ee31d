"""Conversion of a kernel backend's parameters to those of our C kernels.

Checks of shapes are the backend interface's (`aisrv.kernels.checks`); what is added here are the bounds of
32-bit words, which plain Python does not have.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from aisrv.image_builder.dimensions import Dimension, broadcast_dimensions, packed
from aisrv.image_builder.structures import (
    Convolution,
    Elementwise,
    FullyConnected,
    Parameters,
    Pool,
    Softmax,
)
from aisrv.kernels import arithmetic, checks
from aisrv.kernels.arithmetic import INT8_MIN, INT32_MAX, Multiplier
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
from aisrv.kernels.windows import conv_windows, pool_windows
from aisrv.model.relocatable.errors import BuildError

LARGEST_DIFFERENCE: Final = 255
"""Largest difference of an int8 value and a zero point."""
_MOST_CLASSES: Final = 4096
"""Most classes of a softmax: the sum of their exponentials fits into 32 bits."""


class Places(Protocol):
    """Places of buffers and constants."""

    def buffer(self, buffer: Buffer) -> int: ...

    def constant(self, data: bytes) -> int:
        """Place a copy of constants at a multiple of 4."""


class Step(NamedTuple):
    """A call of a kernel."""

    kernel: str
    """Name of the C function; see KERNELS."""
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
    checks.check_conv2d(params)
    return grouped_conv_2d(params, places)


def grouped_conv_2d(params: Conv2dParams, places: Places) -> Step:
    """CONV_2D of groups: the input has a multiple of the channels that the weights have."""
    taps = params.weights_shape[1] * params.weights_shape[2] * params.weights_shape[3]
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape[0], -1)
    sums = np.abs(weights.astype(np.int64)).sum(1)
    groups = params.input_shape[3] // params.weights_shape[3]
    found = _convolution(params, places, sums, groups=groups)
    return Step("conv_2d", found, len(params.output) * taps)


def depthwise_conv_2d(params: DepthwiseConv2dParams, places: Places) -> Step:
    checks.check_depthwise_conv2d(params)
    taps = params.weights_shape[1] * params.weights_shape[2]
    weights = np.frombuffer(params.weights, np.int8).reshape(taps, -1)
    sums = np.abs(weights.astype(np.int64)).sum(0)
    found = _convolution(params, places, sums, depth_multiplier=params.depth_multiplier)
    return Step("depthwise_conv_2d", found, len(params.output) * taps)


def _convolution(
    params: Conv2dParams | DepthwiseConv2dParams,
    places: Places,
    weight_sums: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    *,
    depth_multiplier: int = 1,
    groups: int = 1,
) -> Convolution:
    batches, in_h, in_w, depth = params.input_shape
    _, out_h, out_w, out_c = params.output_shape
    _, taps_h, taps_w, _ = params.weights_shape
    rows, columns = conv_windows(params)
    multipliers = arithmetic.conv_multipliers(params)
    bias = _bias(params.bias, out_c)
    _check_sums(bias, weight_sums, LARGEST_DIFFERENCE, multipliers)
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
        in_c=depth // groups,
        groups=groups,
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
    checks.check_fully_connected(params)
    outputs, inputs = params.weights_shape
    weights_zero = params.weights_quant.zero_point if params.weights_per_channel_quant is None else 0
    weights = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).astype(np.int64)
    multipliers = arithmetic.fully_connected_multipliers(params)
    bias = _bias(params.bias, outputs)
    _check_sums(bias, np.abs(weights - weights_zero).sum(1), LARGEST_DIFFERENCE, multipliers)
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
    return Step("average_pool", _pool(params, places), 0)


def max_pool(params: PoolParams, places: Places) -> Step:
    return Step("max_pool", _pool(params, places), 0)


def _pool(params: PoolParams, places: Places) -> Pool:
    checks.check_pool(params)
    batches, in_h, in_w, channels = params.input_shape
    _, out_h, out_w, _ = params.output_shape
    rows, columns = pool_windows(params)
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
    checks.check_add(params)
    return broadcast_add(params, places, _repeated(params))


def broadcast_add(params: ElementwiseAddParams, places: Places, dimensions: Sequence[Dimension]) -> Step:
    """ADD of inputs that broadcast: `dimensions` are the places of their elements."""
    one, two, out = arithmetic.add_multipliers(params)
    check_shift("the sum", 2 * LARGEST_DIFFERENCE << arithmetic.ADD_LEFT_SHIFT, out)
    return Step("add", _elementwise(params, places, dimensions, one, two, out), 0)


def mul(params: MulParams, places: Places) -> Step:
    checks.check_mul(params)
    return broadcast_mul(params, places, _repeated(params))


def broadcast_mul(params: MulParams, places: Places, dimensions: Sequence[Dimension]) -> Step:
    out = arithmetic.mul_multiplier(params)
    check_shift("the product", LARGEST_DIFFERENCE**2, out)
    nothing = Multiplier(0, 0)
    return Step("mul", _elementwise(params, places, dimensions, nothing, nothing, out), 0)


def _repeated(params: ElementwiseAddParams | MulParams) -> Sequence[Dimension]:
    """Return the dimensions of inputs of which the shorter repeats."""
    length, shorter = len(params.output), min(len(params.input1), len(params.input2))
    shapes = [(len(each) // shorter, shorter) for each in (params.input1, params.input2)]
    return broadcast_dimensions(shapes[0], shapes[1], (length // shorter, shorter))


def _elementwise(
    params: ElementwiseAddParams | MulParams,
    places: Places,
    dimensions: Sequence[Dimension],
    one: Multiplier,
    two: Multiplier,
    out: Multiplier,
) -> Elementwise:
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    return Elementwise(
        input1=places.buffer(params.input1),
        input2=places.buffer(params.input2),
        output=places.buffer(params.output),
        dimensions=places.constant(packed(dimensions)),
        rank=len(dimensions),
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
        check_shift(f"the sum of channel {channel}", bound, multiplier)


def check_shift(what: str, bound: int, multiplier: Multiplier) -> None:
    """Raise BuildError if a value up to `bound` leaves 32 bits when a multiplier shifts it to the left.

    A zero point that is added to the result has room, too.
    """
    if bound << max(multiplier.shift, 0) > INT32_MAX + INT8_MIN:
        raise BuildError(f"{what} may be {bound} times 2**{max(multiplier.shift, 0)}: more than 32 bits hold")
