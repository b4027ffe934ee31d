"""Conversion of a kernel backend's parameters to those of our C kernels.

Parameters were checked as the backend interface says (`aisrv.addons.kernels.checks`); what is added here are
the bounds of 32-bit words, which plain Python does not have.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic
from aisrv.addons.kernels.arithmetic import INT8_MIN, INT32_MAX, Multiplier, exponential_table
from aisrv.addons.kernels.images.dimensions import Dimension, broadcast_dimensions, packed
from aisrv.addons.kernels.images.structures import Parameters
from aisrv.addons.kernels.params import (
    Buffer,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    ElementwiseParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
)
from aisrv.addons.kernels.windows import Window, conv_windows, pool_windows
from aisrv.model.relocatable.errors import BuildError

_Weighted: TypeAlias = Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams
_Sums: TypeAlias = npt.NDArray[np.int64]

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


def conv_2d(params: Conv2dParams, places: Places) -> Step:
    """CONV_2D, also of groups: the input then has a multiple of the channels that the weights have."""
    channels, taps_h, taps_w, depth = params.weights_shape
    weights = np.frombuffer(params.weights, np.int8).reshape(channels, -1)
    groups = params.input_shape[3] // depth
    found = _convolution(params, places, np.abs(weights.astype(np.int64)).sum(1), groups=groups)
    return Step("conv_2d", found, len(params.output) * taps_h * taps_w * depth)


def depthwise_conv_2d(params: DepthwiseConv2dParams, places: Places) -> Step:
    taps = params.weights_shape[1] * params.weights_shape[2]
    weights = np.frombuffer(params.weights, np.int8).reshape(taps, -1)
    sums = np.abs(weights.astype(np.int64)).sum(0)
    found = _convolution(params, places, sums, depth_multiplier=params.depth_multiplier)
    return Step("depthwise_conv_2d", found, len(params.output) * taps)


def _convolution(
    params: Conv2dParams | DepthwiseConv2dParams,
    places: Places,
    weight_sums: _Sums,
    *,
    depth_multiplier: int = 1,
    groups: int = 1,
) -> Parameters:
    _, taps_h, taps_w, _ = params.weights_shape
    return Parameters.of(
        "convolution",
        **_windows(params, places, conv_windows(params)),
        **_weighted(params, places, arithmetic.conv_multipliers(params), weight_sums),
        in_c=params.input_shape[3] // groups,
        groups=groups,
        out_c=params.output_shape[3],
        taps_h=taps_h,
        taps_w=taps_w,
        dilation_h=params.dilation_h_factor,
        dilation_w=params.dilation_w_factor,
        depth_multiplier=depth_multiplier,
    )


def fully_connected(params: FullyConnectedParams, places: Places) -> Step:
    outputs, inputs = params.weights_shape
    weights_zero = params.weights_quant.zero_point if params.weights_per_channel_quant is None else 0
    weights = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).astype(np.int64)
    sums = np.abs(weights - weights_zero).sum(1)
    found = Parameters.of(
        "fully_connected",
        **_buffers(params, places),
        **_weighted(params, places, arithmetic.fully_connected_multipliers(params), sums),
        **_bounds(params),
        batches=len(params.input) // inputs,
        inputs=inputs,
        outputs=outputs,
        weights_zero=weights_zero,
    )
    return Step("fully_connected", found, len(params.output) * inputs)


def average_pool(params: PoolParams, places: Places) -> Step:
    return Step("average_pool", _pool(params, places), 0)


def max_pool(params: PoolParams, places: Places) -> Step:
    return Step("max_pool", _pool(params, places), 0)


def _pool(params: PoolParams, places: Places) -> Parameters:
    return Parameters.of(
        "pool",
        **_windows(params, places, pool_windows(params)),
        channels=params.input_shape[3],
        taps_h=params.filter_h,
        taps_w=params.filter_w,
    )


def softmax(params: SoftmaxParams, places: Places) -> Step:
    rows, classes = params.input_shape
    if classes > _MOST_CLASSES:
        raise BuildError(f"SOFTMAX has {classes} classes, the C kernel has room for {_MOST_CLASSES}")
    table = exponential_table(params.beta, params.input_quant.scale)
    found = Parameters.of(
        "softmax",
        **_buffers(params, places),
        exponentials=places.constant(_words(table)),
        rows=rows,
        classes=classes,
    )
    return Step("softmax", found, 0)


def add(params: ElementwiseAddParams, places: Places, dimensions: Sequence[Dimension] | None = None) -> Step:
    """ADD. `dimensions` are the places of elements of inputs that broadcast; else the shorter one repeats."""
    one, two, out = arithmetic.add_multipliers(params)
    check_shift("the sum", 2 * LARGEST_DIFFERENCE << arithmetic.ADD_LEFT_SHIFT, out)
    return Step("add", _elementwise(params, places, dimensions, one, two, out), 0)


def mul(params: MulParams, places: Places, dimensions: Sequence[Dimension] | None = None) -> Step:
    """MUL; as `add`."""
    out = arithmetic.mul_multiplier(params)
    check_shift("the product", LARGEST_DIFFERENCE**2, out)
    nothing = Multiplier(0, 0)
    return Step("mul", _elementwise(params, places, dimensions, nothing, nothing, out), 0)


STEPS: Final[Mapping[str, Callable[[Any, Places], Step]]] = {
    "conv2d": conv_2d,
    "depthwise_conv2d": depthwise_conv_2d,
    "fully_connected": fully_connected,
    "avg_pool": average_pool,
    "max_pool": max_pool,
    "softmax": softmax,
    "add": add,
    "mul": mul,
}
"""The step of each method of a kernel backend, for parameters that were checked."""


def _elementwise(
    params: ElementwiseParams,
    places: Places,
    dimensions: Sequence[Dimension] | None,
    one: Multiplier,
    two: Multiplier,
    out: Multiplier,
) -> Parameters:
    inputs = [places.buffer(params.input1), places.buffer(params.input2)]
    output = places.buffer(params.output)
    if dimensions is None:
        length, shorter = len(params.output), min(len(params.input1), len(params.input2))
        shapes = [(len(each) // shorter, shorter) for each in (params.input1, params.input2)]
        dimensions = broadcast_dimensions(shapes[0], shapes[1], (length // shorter, shorter))
    return Parameters.of(
        "elementwise",
        input1=inputs[0],
        input2=inputs[1],
        output=output,
        dimensions=places.constant(packed(dimensions)),
        rank=len(dimensions),
        length=len(params.output),
        zero1=params.input1_quant.zero_point,
        zero2=params.input2_quant.zero_point,
        out_zero=params.output_quant.zero_point,
        **_bounds(params),
        mantissa1=one.mantissa,
        shift1=one.shift,
        mantissa2=two.mantissa,
        shift2=two.shift,
        out_mantissa=out.mantissa,
        out_shift=out.shift,
    )


# Fields that several structures have.


def _buffers(params: _Weighted | PoolParams | SoftmaxParams, places: Places) -> dict[str, int]:
    return {"input": places.buffer(params.input), "output": places.buffer(params.output)}


def _bounds(params: _Weighted | PoolParams | ElementwiseParams) -> dict[str, int]:
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    return {"low": low, "high": high}


def _windows(
    params: Conv2dParams | DepthwiseConv2dParams | PoolParams, places: Places, windows: tuple[Window, Window]
) -> dict[str, int]:
    """Return the buffers and sizes of an operator that looks through windows."""
    batches, in_h, in_w, _ = params.input_shape
    _, out_h, out_w, _ = params.output_shape
    rows, columns = windows
    return {
        **_buffers(params, places),
        **_bounds(params),
        "batches": batches,
        "in_h": in_h,
        "in_w": in_w,
        "out_h": out_h,
        "out_w": out_w,
        "stride_h": params.stride_h,
        "stride_w": params.stride_w,
        "before_h": rows.before,
        "before_w": columns.before,
    }


def _weighted(
    params: _Weighted, places: Places, multipliers: Sequence[Multiplier], weight_sums: _Sums
) -> dict[str, int]:
    """Return constants and zero points of an operator with weights. Refuses sums that may leave 32 bits."""
    bias = [0] * len(multipliers) if params.bias is None else params.bias.tolist()
    bounds = np.abs(np.asarray(bias, np.int64)) + weight_sums * LARGEST_DIFFERENCE
    for channel, (bound, multiplier) in enumerate(zip(bounds.tolist(), multipliers, strict=True)):
        check_shift(f"the sum of channel {channel}", bound, multiplier)
    return {
        "weights": places.constant(bytes(params.weights)),
        "bias": places.constant(_words(bias)),
        "multipliers": places.constant(_words([word for each in multipliers for word in each])),
        "in_zero": params.input_quant.zero_point,
        "out_zero": params.output_quant.zero_point,
    }


def _words(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def check_shift(what: str, bound: int, multiplier: Multiplier) -> None:
    """Raise BuildError if a value up to `bound` leaves 32 bits when a multiplier shifts it to the left.

    A zero point that is added to the result has room, too.
    """
    if bound << max(multiplier.shift, 0) > INT32_MAX + INT8_MIN:
        raise BuildError(f"{what} may be {bound} times 2**{max(multiplier.shift, 0)}: more than 32 bits hold")
