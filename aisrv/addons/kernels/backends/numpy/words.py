"""The rescaling of sums in NumPy: M(x, m, s) of whole arrays in 64-bit integers.

Values come as int64: of a 32-bit sum the lower 32 bits count, as on a device, where it wraps. Source: "The
INT8 kernel engine", section Arithmetic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import Bounds, Multiplier, Rounding
from aisrv.addons.kernels.params import INT8, ElementType

Array: TypeAlias = npt.NDArray[Any]
Words: TypeAlias = npt.NDArray[np.int64]
Scale: TypeAlias = Callable[[Words], Words]
"""Rescales values into a new array."""


def wrapped(values: Words) -> Words:
    """The int32 of the lower 32 bits of each value, as a new array of int64."""
    return values.astype(np.int32).astype(np.int64)


def word_scale(multipliers: Sequence[Multiplier], rounding: Rounding = Rounding.DOUBLE) -> Scale:
    """M(x, m, s) of 32-bit sums, with one multiplier for each index of the last dimension, or one for all."""
    mantissa = np.array([each.mantissa for each in multipliers], np.int64)
    shift = np.array([each.shift for each in multipliers], np.int64)
    if len(multipliers) == 1:  # NumPy is faster with a number than with an array of one
        mantissa, shift = mantissa[0], shift[0]
    if rounding is Rounding.SINGLE:
        bits = 31 - shift
        tie = (1 << bits) >> 1
        return lambda values: wrapped((wrapped(values) * mantissa + tie) >> bits)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    half, is_rounded = (1 << right) >> 1, right > 0
    is_shifted, always_rounded = left.any(), is_rounded.all()

    def scale(values: Words) -> Words:
        scaled = wrapped(values << left if is_shifted else values)
        scaled *= mantissa
        scaled += 1 << 30
        scaled >>= 31
        less = scaled < 0 if always_rounded else (scaled < 0) & is_rounded
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


@dataclass(frozen=True, slots=True)
class Output:
    """Conversion of sums to outputs: clamp(M(sum + bias, m, s) + zero), by channel."""

    bias: Words
    multipliers: tuple[Multiplier, ...]
    zero: int
    bounds: Bounds
    is_wide: bool
    """True for sums of 64 bits; others wrap at 32."""


class Finish(Protocol):
    """Writes outputs, from a row on, of sums of products [rows, channels]."""

    def __call__(self, sums: Array, first: int = 0, /) -> None:
        """Write as many rows."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The type of activations, and the rounding of products with multipliers."""

    elements: ElementType = INT8
    rounding: Rounding = Rounding.DOUBLE

    def array(self, buffer: memoryview) -> Array:
        """View a buffer of activations."""
        return np.frombuffer(buffer, self.elements.format)

    def finish(self, output: memoryview, how: Output) -> Finish:
        """Prepare what writes an output."""
        scale = wide_scale(how.multipliers) if how.is_wide else word_scale(how.multipliers, self.rounding)
        target = self.array(output).reshape(-1, len(how.bias))

        def finish(sums: Array, first: int = 0) -> None:
            values = wrapped(scale(sums.astype(np.int64) + how.bias) + how.zero)
            target[first : first + len(sums)] = values.clip(*how.bounds)

        return finish
