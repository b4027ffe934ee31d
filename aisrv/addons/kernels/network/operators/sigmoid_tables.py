"""Sigmoid and tanh of every int16 value, between the entries of one table of 256 sigmoids.

Sources: `integer_ops/logistic.h`, `integer_ops/tanh.h` of TensorFlow Lite; `logistic_common.cc`, `tanh.cc` of
TensorFlow Lite Micro.
"""

import math
from functools import cache
from typing import Final, NamedTuple, Self

import numpy as np

from aisrv.addons.kernels.backends.numpy.words import wrapped
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.recurrent import Words

OUTPUT_SCALE: Final = 2.0**-15
"""The scale of a result."""

_FRACTION_BITS: Final = 12
_LARGEST_HALF: Final = 32767 / 2
_MOST_SHIFT: Final = 31
_NEAR_POWER: Final = 1e-3


class Argument(NamedTuple):
    """The factor from a value to an argument of the table in steps of 2**-12 / 3, and bits to shift right."""

    multiplier: int
    right: int

    @classmethod
    def power(cls, shift: int) -> Self:
        """The factor of values in steps of 2**(shift - 12)."""
        return cls(3 << shift, 0) if shift >= 0 else cls(3, -shift)

    @classmethod
    def of_scale(cls, scale: float, *powers: int) -> Self:
        """The factor of values with a scale; exact for scales of 2**(p - 12), where p is one of `powers`.

        NetworkError for a scale so large that the factor leaves 31 bits.
        """
        exponent = math.log2(scale)
        power = round(exponent) + _FRACTION_BITS
        if abs(exponent - round(exponent)) < _NEAR_POWER and power in powers:
            return cls.power(power)
        factor, right = scale * 3 * (1 << _FRACTION_BITS), 0
        while factor <= _LARGEST_HALF and right < _MOST_SHIFT:
            factor, right = factor * 2, right + 1
        if factor >= 1 << 31:
            raise NetworkError(f"the input's scale {scale} is too large for int16")
        return cls(int(factor), right)

    def of_all_words(self) -> Words:
        """The argument of each word, by its 16 bits."""
        words = np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int64)
        return wrapped(words * self.multiplier + ((1 << self.right) >> 1)) >> self.right


@cache
def sigmoid_table(argument: Argument) -> Words:
    """1/(1 + exp(-x)) of each word, by its 16 bits; results have 15 bits after the point."""
    arguments = argument.of_all_words()
    sizes = np.abs(arguments)
    low, high = _ends(sizes >> 9)
    positive = np.where(sizes >> 9 >= 255, 0x7FFF << 10, (low << 9) + (sizes & 0x1FF) * (high - low))
    rounded = np.where(arguments >= 0, positive + (1 << 9), (1 << 25) - positive + (1 << 9) - 1)
    return rounded >> 10


@cache
def tanh_table(argument: Argument) -> Words:
    """Tanh of each word, by its 16 bits; results have 15 bits after the point."""
    arguments = argument.of_all_words()
    sizes = np.abs(arguments)
    low, high = _ends(sizes >> 8)
    positive = np.where(sizes >> 8 >= 255, 0xFFFF << 8, (low << 8) + (sizes & 0xFF) * (high - low))
    rounded = np.where(arguments >= 0, positive - (1 << 23) + (1 << 7), -positive + (1 << 23) + (1 << 7) - 1)
    return rounded >> 8


def _ends(places: Words) -> tuple[Words, Words]:
    """The entries on both sides of each argument."""
    inside, entries = np.minimum(places, 254), _sigmoid_entries()
    return entries[inside], entries[inside + 1]


@cache
def _sigmoid_entries() -> Words:
    """1/(1 + exp(-x)) with 16 bits after the point, for x in steps of 1/24.

    An entry lies above its value by half of what a straight line to the next one is too low in the middle.
    """
    exact = [65536 / (1 + math.exp(-half / 48)) for half in range(2 * 256 + 1)]
    entries = [
        math.floor(low + (middle - (low + high) / 2) / 2 + 0.5)
        for low, middle, high in zip(exact[:-2:2], exact[1::2], exact[2::2], strict=True)
    ]
    return np.array([*entries[:-1], 65535], np.int64)
