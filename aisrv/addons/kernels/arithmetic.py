"""The arithmetic of int8 kernels in plain integers: multipliers, roundings, activations.

Reals of a model (scales) become a 31-bit mantissa and a shift, once, in the prepare phase; values are then
integers only. Those are words of 32 bits on a device, and wrap: what is multiplied here does so, too. Source:
"The INT8 kernel engine", section Arithmetic, which states what TensorFlow Lite Micro computes.

Scales are float32 numbers held as Python floats; products and quotients of them are in double precision
unless it says float32.
"""

import enum
import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from aisrv.addons.kernels.errors import InternalError, UnsupportedActivation
from aisrv.addons.kernels.params import (
    INT8,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementType,
    ElementwiseAddParams,
    FullyConnectedParams,
    FusedActivation,
    MulParams,
    QuantParam,
    ScaleProduct,
)

INT8_MIN: Final = -128
INT8_MAX: Final = 127
INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1

ADD_LEFT_SHIFT: Final = 20
"""ADD widens its inputs by so many bits before it scales them."""

_SMALLEST_SHIFT: Final = -31
_LARGEST_SHIFT: Final = 31


class Rounding(enum.Enum):
    """Rounding of a product with a multiplier: twice (TensorFlow Lite Micro's default), or once."""

    DOUBLE = "double"
    """Twice, as TensorFlow Lite Micro does by default."""
    SINGLE = "single"
    """Once."""


class Multiplier(NamedTuple):
    """A real factor as mantissa * 2**(shift - 31): `m, s = q(d)` of the source."""

    mantissa: int
    shift: int


class Bounds(NamedTuple):
    """The range that a kernel clamps its output to, ends included."""

    low: int
    high: int


class AddMultipliers(NamedTuple):
    """The factors of ADD: from each input to twice the larger scale, and from there to the output."""

    input1: Multiplier
    input2: Multiplier
    output: Multiplier


# Roundings.


def wrapped(value: int) -> int:
    """Wrap `value` to an int32."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def doubling_high_multiply(a: int, b: int) -> int:
    """S(a, b): the upper half of 2ab, ties rounded up; two int32 in, one out (-2**31 twice saturates)."""
    return min((a * b + (1 << 30)) >> 31, INT32_MAX)


def rounding_shift(value: int, bits: int) -> int:
    """R(y, r): divide by 2**bits, half away from zero; 0 bits leave the value as it is."""
    if bits == 0:
        return value
    return (value + (1 << (bits - 1)) - (value < 0)) >> bits


def multiply_twice_rounded(value: int, multiplier: Multiplier) -> int:
    """M(x, m, s): round after the multiplication, and again after the shift to the right.

    x is `value`, (m, s) the multiplier; x wraps, and so does what is shifted left.
    """
    left, right = max(multiplier.shift, 0), max(-multiplier.shift, 0)
    return rounding_shift(doubling_high_multiply(wrapped(value << left), multiplier.mantissa), right)


def multiply_once_rounded(value: int, multiplier: Multiplier) -> int:
    """M(x, m, s) of the policy `single`: one rounding, ties up.

    x is `value`, (m, s) the multiplier; x wraps, and so does the result.
    """
    right = 31 - multiplier.shift
    return wrapped((wrapped(value) * multiplier.mantissa + ((1 << right) >> 1)) >> right)


MULTIPLY: Final = {Rounding.DOUBLE: multiply_twice_rounded, Rounding.SINGLE: multiply_once_rounded}
"""M(x, m, s) of each policy."""


def round_half_away(value: float) -> int:
    """Round `value` to the nearest integer, half away from zero, as C's `round`."""
    nearest = math.floor(abs(value) + 0.5)
    return nearest if value >= 0 else -nearest


def float32(value: float) -> float:
    """Round `value` to float32; what is too large becomes infinite."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


# Multipliers.


def quantized_multiplier(real: float) -> Multiplier:
    """q(d): mantissa (0, or from 2**30 to 2**31 - 1) and shift of a real that is not negative.

    Factors below 2**-32 become 0. Raise InternalError for a real that is negative or no number, or from 2**31
    on: an int32 cannot be shifted so far.
    """
    if not (math.isfinite(real) and real >= 0):
        raise InternalError(f"a multiplier must be a finite real that is not negative, this one is {real}")
    fraction, shift = math.frexp(real)
    mantissa = round_half_away(fraction * (1 << 31))
    if mantissa == 1 << 31:
        mantissa, shift = mantissa >> 1, shift + 1
    if shift > _LARGEST_SHIFT:
        raise InternalError(f"a multiplier must be below 2**31, this one is {real}")
    if shift < _SMALLEST_SHIFT:
        return Multiplier(0, 0)
    return Multiplier(mantissa, shift)


def multiply_scales(one: float, two: float, how: ScaleProduct) -> float:
    """Multiply scale `one` by scale `two`, in the precision that `how` names."""
    return float32(one * two) if how is ScaleProduct.FLOAT32 else one * two


def conv_multipliers(params: Conv2dParams | DepthwiseConv2dParams) -> tuple[Multiplier, ...]:
    """One multiplier for each output channel: input scale * weight scale / output scale, in double."""
    channels = params.output_shape[3]
    per_channel = params.weights_per_channel_quant
    scales = (params.weights_quant.scale,) if per_channel is None else per_channel.scales
    return _per_channel(params.input_quant.scale, scales, params.output_quant.scale, channels)


def fully_connected_multipliers(params: FullyConnectedParams) -> tuple[Multiplier, ...]:
    """One multiplier for each output: input scale * weight scale / output scale."""
    per_channel = params.weights_per_channel_quant
    if per_channel is not None:
        scales = per_channel.scales
        return _per_channel(params.input_quant.scale, scales, params.output_quant.scale, params.output_depth)
    product = multiply_scales(params.input_quant.scale, params.weights_quant.scale, params.scale_product)
    return (quantized_multiplier(product / params.output_quant.scale),) * params.output_depth


def _per_channel(
    input_scale: float, scales: tuple[float, ...], output_scale: float, channels: int
) -> tuple[Multiplier, ...]:
    multipliers = tuple(quantized_multiplier(input_scale * scale / output_scale) for scale in scales)
    return multipliers * channels if len(multipliers) == 1 else multipliers


def add_multipliers(params: ElementwiseAddParams, left_shift: int = ADD_LEFT_SHIFT) -> AddMultipliers:
    """The three factors of ADD, whose inputs are widened by `left_shift` bits."""
    scale1, scale2 = params.input1_quant.scale, params.input2_quant.scale
    twice_larger = 2 * max(scale1, scale2)
    return AddMultipliers(
        quantized_multiplier(scale1 / twice_larger),
        quantized_multiplier(scale2 / twice_larger),
        quantized_multiplier(twice_larger / ((1 << left_shift) * params.output_quant.scale)),
    )


def mul_multiplier(params: MulParams) -> Multiplier:
    """The factor of MUL: scale of input 1 * scale of input 2 / output scale, in double."""
    return quantized_multiplier(
        params.input1_quant.scale * params.input2_quant.scale / params.output_quant.scale
    )


# Activations.


def activation_bounds(
    activation: FusedActivation, output: QuantParam, elements: ElementType = INT8
) -> Bounds:
    """The range of an output after its activation; UnsupportedActivation for one without a kernel."""
    zero, low, high = output.zero_point, elements.low, elements.high
    match activation:
        case FusedActivation.NONE:
            return Bounds(low, high)
        case FusedActivation.RELU:
            return Bounds(max(low, zero), high)
        case FusedActivation.RELU6:
            return Bounds(max(low, zero), min(high, zero + _steps(6.0, output.scale)))
        case FusedActivation.RELU_N1_TO_1:
            one = _steps(1.0, output.scale)
            return Bounds(max(low, zero - one), min(high, zero + one))
    raise UnsupportedActivation(f"the activation {activation.name} has no {elements.name} kernel")


def _steps(real: float, scale: float) -> int:
    quotient = float32(real / scale)
    return INT32_MAX if quotient >= INT32_MAX else round_half_away(quotient)


# SOFTMAX. Fixed-point numbers are int32: an exponential has 31 bits after the point, a sum of them 19. A
# difference to the row's maximum is from -255 to 0, so a row takes its exponentials from a table of 256.

LARGEST_MULTIPLIER: Final = {Rounding.DOUBLE: (1 << 31) - 1.0, Rounding.SINGLE: (1 << 30) - 1.0}
"""Upper limit of beta * scale * 2**26."""

_QUARTER: Final = 1 << 24
_EXP_OF_EIGHTH: Final = 1895147668
"""exp(-1/8) with 31 bits after the point."""
_ONE_THIRD: Final = 715827883
_EXP_OF_POWERS: Final = (
    (24, 1672461947),
    (25, 1302514674),
    (26, 790015084),
    (27, 290630308),
    (28, 39332535),
    (29, 720401),
    (30, 242),
)
"""Bits of an argument with 26 bits after the point, and exp of minus what each is worth: 1/4 to 16."""
_FORTY_EIGHT_17THS: Final = 1515870810
_MINUS_THIRTY_TWO_17THS: Final = -1010580540
SUM_SHIFT: Final = 12
"""Bits that exponentials lose before they are summed."""
_OUTPUT_SHIFT: Final = {"int8": 35, "int16": 27}


def saturate32(value: int) -> int:
    """Clamp to int32."""
    return max(INT32_MIN, min(INT32_MAX, value))


def exponential(argument: int) -> int:
    """E(a): exp of an argument of 0 or less, with 26 bits after the point; the result has 31."""
    if argument == 0:
        return INT32_MAX
    product, half_away = doubling_high_multiply, rounding_shift
    remainder = (argument & (_QUARTER - 1)) - _QUARTER
    # A Taylor polynomial of degree 4 around -1/8.
    x = saturate32(remainder << 5) + (1 << 28)
    x2 = product(x, x)
    x3, x4 = product(x2, x), product(x2, x2)
    tail = half_away(product(half_away(x4, 2) + x3, _ONE_THIRD) + x2, 1)
    result = _EXP_OF_EIGHTH + product(_EXP_OF_EIGHTH, x + tail)
    for bit, factor in _EXP_OF_POWERS:
        if (remainder - argument) >> bit & 1:
            result = product(result, factor)
    return result


def reciprocal(argument: int) -> int:
    """V(a): 1/(1 + a) for a from 0 to 1, 31 bits after the point in both."""
    return saturate32(_double_reciprocal(argument) << 1)


def difference_over_sum(argument: int) -> int:
    """(1 - a)/(1 + a) for a from 0 to 1, 31 bits after the point in both."""
    return saturate32((_double_reciprocal(argument) - (1 << 29)) << 2)


def _double_reciprocal(argument: int) -> int:
    """2/(1 + a), of 31 bits after the point, with 29: three steps of Newton's method."""
    product = doubling_high_multiply
    half = (argument + (1 << 31)) // 2
    x = _FORTY_EIGHT_17THS + product(half, _MINUS_THIRTY_TWO_17THS)
    for _ in range(3):
        x += saturate32(product(x, (1 << 29) - product(half, x)) << 2)
    return x


def exponential_table(beta: float, scale: float, rounding: Rounding = Rounding.DOUBLE) -> tuple[int, ...]:
    """Exponentials of the differences 0, -1, ... -255 to a row's maximum; 0 for one too small to count.

    Raise InternalError for beta * scale of 2**-26 or less, for which the arithmetic has no multiplier.
    """
    factor = min(beta * scale * (1 << 26), LARGEST_MULTIPLIER[rounding])
    if not factor > 1:
        raise InternalError(
            f"SOFTMAX: beta {beta} times the input's scale {scale} is too small, needs 2**-26"
        )
    mantissa, left = quantized_multiplier(factor)
    smallest = -math.floor(31 * (1 << 26) / (1 << left))
    return tuple(
        exponential(doubling_high_multiply(difference << left, mantissa)) if difference >= smallest else 0
        for difference in range(0, -256, -1)
    )


def softmax_row(row: Sequence[int], table: Sequence[int], output: ElementType = INT8) -> list[int]:
    """Softmax of int8 values, as int8 of scale 1/256 and zero point -128, or int16 of 2**-16 and -2**15."""
    largest = max(row)
    exponentials = [table[largest - value] for value in row]
    # The sum is a 32-bit word. TensorFlow Lite Micro aborts from 2**28 on: 512 values that equal the largest.
    total = sum(rounding_shift(each, SUM_SHIFT) for each in exponentials) & 0xFFFFFFFF
    zeros = 32 - total.bit_length()
    factor = reciprocal((total << zeros) - (1 << 31))
    shift = _OUTPUT_SHIFT[output.name] - zeros
    outputs = []
    for each in exponentials:
        product = doubling_high_multiply(each, factor)
        value = rounding_shift(product, shift) + output.low
        outputs.append(max(output.low, min(output.high, value)))
    return outputs
