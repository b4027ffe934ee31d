"""The arithmetic of int16 activations with int8 weights, in plain integers.

Accumulators have 64 bits where the bias has, or where there is none, and their factors 15; with a bias of 32
bits both are as for int8. What leaves 32 bits when it is scaled wraps. Zero points are 0. Source: TensorFlow
Lite Micro, `kernels/conv.cc`, `kernels/softmax_common.cc`, `internal/common.cc`
(MultiplyByQuantizedMultiplier of int64).
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

from aisrv.addons.kernels.arithmetic import (
    MULTIPLY,
    Multiplier,
    Rounding,
    float32,
    quantized_multiplier,
    round_half_away,
    wrapped,
)
from aisrv.addons.kernels.errors import InternalError
from aisrv.addons.kernels.params import INT16, Bias, SoftmaxParams

ADD_LEFT_SHIFT: Final = 15
"""ADD widens its inputs by so many bits before it scales them."""

MOST_SHIFT: Final = 7
"""Factors of 64-bit accumulators are below 2**7."""

LARGEST_BIAS: Final = 1 << 46
"""Half of what TensorFlow Lite Micro scales; the other half is for products."""

Multiply: TypeAlias = Callable[[int, Multiplier], int]

_STEPS: Final = 512
_SMALLEST_EXPONENT: Final = -10.0
"""exp(-10) is the least that a softmax counts."""


def reduced_mantissa(multiplier: Multiplier) -> int:
    """The upper 15 bits of a mantissa, rounded."""
    return min((multiplier.mantissa + (1 << 15)) >> 16, (1 << 15) - 1)


def multiply_wide(value: int, multiplier: Multiplier) -> int:
    """Scale a 64-bit accumulator: by 15 bits of the mantissa, with one rounding, ties up."""
    right = 15 - multiplier.shift
    return wrapped((value * reduced_mantissa(multiplier) + (1 << (right - 1))) >> right)


def is_wide(bias: Bias | None) -> bool:
    """Tell whether accumulators have 64 bits."""
    return bias is None or bias.format == "q"


def check_wide(multipliers: Sequence[Multiplier], bias: Bias | None) -> None:
    """Raise InternalError for a factor or a bias that 64-bit accumulators cannot have."""
    largest = max(each.shift for each in multipliers)
    if largest > MOST_SHIFT:
        raise InternalError(f"factors of 64-bit sums must be below 2**{MOST_SHIFT}, one is near 2**{largest}")
    if bias is not None and max(abs(each) for each in bias) >= LARGEST_BIAS:
        raise InternalError("bias: must be below 2**46, so that sums stay in 48 bits")


# SOFTMAX: exponentials and a reciprocal by tables of 513 values, with straight lines between them.


def table_of(function: Callable[[float], float], low: float, high: float) -> tuple[int, ...]:
    """Tabulate a function of [low, high] in 512 steps as int16 of scale 2**-15, in float32 arithmetic.

    Each value but the last is moved by half of what the line to the next one is off in the middle.
    """
    step = float32(float32(high - low) / _STEPS)
    half = float32(step / 2)

    def at(number: int, beyond: float = 0.0) -> float:
        place = float32(low + float32(number * step))
        return float32(float32(function(float32(place + beyond))) * (1 << 15))

    def middle_error(number: int) -> int:
        middle = round_half_away(float32(float32(at(number + 1) + round_half_away(at(number))) / 2))
        return middle - round_half_away(at(number, half))

    values = [
        round_half_away(at(number)) - round_half_away(middle_error(number) / 2) for number in range(_STEPS)
    ]
    values.append(round_half_away(float32(float32(function(high)) * (1 << 15))))
    return tuple(max(INT16.low, min(INT16.high, value)) for value in values)


@cache
def exponentials() -> tuple[int, ...]:
    """Tabulate exp from -10 to 0."""
    return table_of(math.exp, _SMALLEST_EXPONENT, 0.0)


@cache
def reciprocals() -> tuple[int, ...]:
    """Tabulate 1 / (1 + x) from 0 to 1."""
    return table_of(lambda value: float32(1.0 / float32(1.0 + value)), 0.0, 1.0)


def look_up(value: int, table: Sequence[int]) -> int:
    """Return a table's value for an int16, between two of its entries."""
    index, offset = 256 + (value >> 7), value & 0x7F
    return table[index] + (((table[index + 1] - table[index]) * offset + 64) >> 7)


def softmax_multiplier(params: SoftmaxParams) -> Multiplier:
    """Return the factor of differences: -65535 stands for an exponent of -10."""
    return quantized_multiplier(params.input_quant.scale * params.beta / (10.0 / 65535.0))


def softmax_row(
    row: Sequence[int],
    multiplier: Multiplier,
    exponential: Sequence[int],
    reciprocal: Sequence[int],
    rounding: Rounding = Rounding.DOUBLE,
) -> list[int]:
    """Softmax of int16 values, as int16 of scale 2**-15."""
    largest = max(row)
    powers = [
        look_up(_saturated(MULTIPLY[rounding](value - largest, multiplier) + INT16.high), exponential)
        for value in row
    ]
    total = sum(powers) & 0xFFFFFFFF
    zeros = 32 - total.bit_length()
    # From 1 to 2, with 16 bits after the point; the table wants what is above 1, around 0.
    shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
    factor = look_up(_saturated(shifted - (1 << 15) - (1 << 16)), reciprocal)
    right = 31 - zeros
    half = 1 << (right - 1)
    return [max(0, min(INT16.high, (power * factor + half) >> right)) for power in powers]


def _saturated(value: int) -> int:
    return max(INT16.low, min(INT16.high, value))
