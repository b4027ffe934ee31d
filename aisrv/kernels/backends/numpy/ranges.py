"""The range of a layer's sums, and whether anything made of them leaves 32 bits.

This is decided once, when a layer is prepared. Where all stays in 32 bits, rescaling is a function that never
falls, and fast code relies on that. Where it does not, results wrap, as those of a device do.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import INT8_MAX, INT8_MIN, INT32_MAX, INT32_MIN, Multiplier
from aisrv.kernels.backends.numpy.words import word_scale

_Numbers = npt.NDArray[np.int64]


class SumRange(NamedTuple):
    """The smallest and the largest sum of each channel, over all inputs of int8."""

    least: _Numbers
    most: _Numbers


def sum_range(bias: _Numbers, weights: _Numbers, input_zero: int) -> SumRange:
    """Return the range of bias + sum of (x - input_zero) * weight; `weights` are [taps, channels]."""
    positive, negative = np.maximum(weights, 0).sum(axis=0), np.minimum(weights, 0).sum(axis=0)
    lowest, highest = INT8_MIN - input_zero, INT8_MAX - input_zero
    return SumRange(
        bias + lowest * positive + highest * negative, bias + highest * positive + lowest * negative
    )


def may_wrap(sums: SumRange, multipliers: Sequence[Multiplier], output_zero: int) -> npt.NDArray[np.bool_]:
    """Tell for each channel whether M(x, m, s) + zero point can leave 32 bits on its way.

    Not where all sums of a channel are one: its only output is known at once, wrapped or not.
    """
    left = np.array([max(each.shift, 0) for each in multipliers], np.int64)
    stays = (sums.least >= INT32_MIN >> left) & (sums.most <= INT32_MAX >> left)
    scale = word_scale(multipliers)
    low = scale(np.where(stays, sums.least, 0)) + output_zero
    high = scale(np.where(stays, sums.most, 0)) + output_zero
    # One more on each side, for the policy of one rounding.
    stays &= (low > INT32_MIN) & (high < INT32_MAX)
    return np.asarray(~stays & (sums.least != sums.most))
