"""The rescaling of 32-bit sums in NumPy: M(x, m, s) of whole arrays, which wraps as words of a device do.

Values come as int64: of a sum of any size, the lower 32 bits count. Source: "The INT8 kernel engine", section
Arithmetic.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.kernels import int16
from aisrv.kernels.arithmetic import Multiplier, Rounding

Words: TypeAlias = npt.NDArray[np.int64]
Scale: TypeAlias = Callable[[Words], Words]
"""Rescales values into a new array."""


def wrapped(values: Words) -> Words:
    """The int32 of the lower 32 bits of each value, as a new array of int64."""
    return values.astype(np.int32).astype(np.int64)


def multiply(values: Words, multiplier: Multiplier) -> Words:
    """M(x, m, s) of each value, with double rounding."""
    left, right = max(multiplier.shift, 0), max(-multiplier.shift, 0)
    scaled = wrapped(values << left if left else values)
    scaled *= multiplier.mantissa
    scaled += 1 << 30
    scaled >>= 31
    if right:
        less = scaled < 0
        scaled += 1 << (right - 1)
        scaled -= less
        scaled >>= right
    return scaled


def word_scale(multipliers: Sequence[Multiplier], rounding: Rounding = Rounding.DOUBLE) -> Scale:
    """M(x, m, s) of 32-bit sums, with one multiplier for each index of the last dimension, or one for all."""
    mantissa = np.array([each.mantissa for each in multipliers], np.int64)
    shift = np.array([each.shift for each in multipliers], np.int64)
    if rounding is Rounding.SINGLE:
        bits = 31 - shift
        tie = (1 << bits) >> 1
        return lambda values: wrapped((wrapped(values) * mantissa + tie) >> bits)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    half, is_rounded = (1 << right) >> 1, right > 0

    def scale(values: Words) -> Words:
        scaled = wrapped(values << left)
        scaled *= mantissa
        scaled += 1 << 30
        scaled >>= 31
        less = (scaled < 0) & is_rounded
        scaled += half
        scaled -= less
        scaled >>= right
        return scaled

    return scale


def wide_scale(multipliers: Sequence[Multiplier]) -> Scale:
    """Scale 64-bit sums to 32 bits, as `int16.check_wide` allows them; multipliers as of `word_scale`."""
    mantissa = np.array([int16.reduced_mantissa(each) for each in multipliers], np.int64)
    right = np.array([15 - each.shift for each in multipliers], np.int64)
    half = 1 << (right - 1)
    return lambda values: wrapped((values * mantissa + half) >> right)
