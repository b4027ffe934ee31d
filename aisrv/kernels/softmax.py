"""SOFTMAX in plain integers: the exponential, the reciprocal, and a row of the two.

Fixed-point numbers are int32: an exponential has 31 bits after the point, a sum of them 19. A difference to
the row's maximum is from -255 to 0, so a row takes its exponentials from a table of 256. Source: "The INT8
kernel engine", section Arithmetic, SOFTMAX: what TensorFlow Lite Micro computes.
"""

import math
from collections.abc import Sequence
from typing import Final

from aisrv.kernels import arithmetic
from aisrv.kernels.arithmetic import INT32_MAX, INT32_MIN, Rounding
from aisrv.kernels.errors import InternalError
from aisrv.kernels.params import INT8, ElementType

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
    product, half_away = arithmetic.doubling_high_multiply, arithmetic.rounding_shift
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
    product = arithmetic.doubling_high_multiply
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
    mantissa, left = arithmetic.quantized_multiplier(factor)
    smallest = -math.floor(31 * (1 << 26) / (1 << left))
    return tuple(
        exponential(arithmetic.doubling_high_multiply(difference << left, mantissa))
        if difference >= smallest
        else 0
        for difference in range(0, -256, -1)
    )


def softmax_row(row: Sequence[int], table: Sequence[int], output: ElementType = INT8) -> list[int]:
    """Softmax of int8 values, as int8 of scale 1/256 and zero point -128, or int16 of 2**-16 and -2**15."""
    largest = max(row)
    exponentials = [table[largest - value] for value in row]
    # The sum is a 32-bit word. TensorFlow Lite Micro aborts from 2**28 on: 512 values that equal the largest.
    total = sum(arithmetic.rounding_shift(each, SUM_SHIFT) for each in exponentials) & 0xFFFFFFFF
    zeros = 32 - total.bit_length()
    factor = reciprocal((total << zeros) - (1 << 31))
    shift = _OUTPUT_SHIFT[output.name] - zeros
    outputs = []
    for each in exponentials:
        product = arithmetic.doubling_high_multiply(each, factor)
        value = arithmetic.rounding_shift(product, shift) + output.low
        outputs.append(max(output.low, min(output.high, value)))
    return outputs
