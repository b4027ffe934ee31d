"""The rescaling of sums to outputs as the library's words, where every number of it fits into 32 bits.

The library computes R(S(x * 2**l, m), r) + zero point in int32. Whether that holds is decided here, for each
channel, from the smallest and the largest sum that its weights can make. A channel whose outputs are all the
same becomes that constant: trained networks have dead channels with extreme multipliers. For any other that
does not fit, NotImplementedError is raised, and another backend serves. Source: "Speed of the INT8 kernels",
section Exact double rounding.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import (
    INT32_MAX,
    INT32_MIN,
    Bounds,
    Multiplier,
    multiply_twice_rounded,
    wrapped,
)
from aisrv.addons.kernels.backends.numpy.words import Words, word_scale
from aisrv.addons.kernels.params import INT8, INT16, ElementType

LANES: Final = 16
"""Channels of a block."""

_WORDS: Final = 5


class SumRange(NamedTuple):
    """The smallest and the largest sum of each channel, over all inputs."""

    least: Words
    most: Words


def sum_range(bias: Words, weights: Words, input_zero: int, elements: ElementType = INT8) -> SumRange:
    """Return the range of bias + sum of (x - input_zero) * weight; `weights` are [taps, channels]."""
    positive, negative = np.maximum(weights, 0).sum(axis=0), np.minimum(weights, 0).sum(axis=0)
    lowest, highest = elements.low - input_zero, elements.high - input_zero
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


def pack_rescaling(
    start: npt.NDArray[np.int64],
    bias: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int64],
    input_zero: int,
    multipliers: Sequence[Multiplier],
    output_zero: int,
    bounds: Bounds,
    elements: ElementType = INT8,
) -> npt.NDArray[np.int32]:
    """Return the words [block, 5, lane]: start of the sum, multiplier, shifts left and right, half.

    `weights` are [taps, channels]; sums are bias + sum of (x - input_zero) * weight, x being any
    of `elements`.
    """
    least, most = sums = sum_range(bias, weights, input_zero, elements)
    wraps = may_wrap(sums, multipliers, output_zero)
    mantissa = np.array([each.mantissa for each in multipliers], np.int64)
    shift = np.array([each.shift for each in multipliers], np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    half = (1 << right >> 1) + (output_zero << right)
    short = (mantissa > 0) & (np.maximum(-least, most) <= INT32_MAX >> (left + 1))
    low = _doubled(np.where(short, least, 0) << left, mantissa) - 1 + half
    high = _doubled(np.where(short, most, 0) << left, mantissa) + half
    fits = short & (np.minimum(low, half) >= INT32_MIN) & (np.maximum(high, half) <= INT32_MAX)
    rows = np.stack([mantissa, left + 1, right, half])
    for channel in (~fits).nonzero()[0]:
        ends = int(least[channel]), int(most[channel])
        if wraps[channel]:
            raise NotImplementedError(f"sums from {ends[0]} to {ends[1]} that wrap when they are scaled")
        rows[:, channel] = _constant(_output(multipliers[channel], ends, output_zero, bounds))
    return _packed(start, rows)


def pack_once(
    bias: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int64],
    multipliers: Sequence[Multiplier],
    bounds: Bounds,
) -> npt.NDArray[np.int32]:
    """Return the words of `pack_rescaling` for sums of int16 that are rounded once, as those of 64 bits.

    The upper word of a sum times the mantissa's 15 bits is the output, where both are shifted to the left so
    that together they come to 32 bits less the shift to the right. NotImplementedError where there is no room
    for that.
    """
    least, most = sum_range(bias, weights, 0, INT16)
    mantissa = np.array([int16.reduced_mantissa(each) for each in multipliers], np.int64)
    right = np.array([15 - each.shift for each in multipliers], np.int64)
    left = np.maximum(1, 16 - right)
    fits = (right < 32) & (np.maximum(-least, most) <= INT32_MAX >> left)
    nothing = np.zeros_like(left)
    rows = np.stack([mantissa << np.maximum(0, 32 - right - left), left, nothing, nothing])
    for channel in (~fits).nonzero()[0]:
        multiplier = multipliers[channel]
        ends = int(least[channel]), int(most[channel])
        outputs = {max(bounds.low, min(bounds.high, int16.multiply_wide(each, multiplier))) for each in ends}
        if len(outputs) > 1 or (ends[0] < ends[1] and _leaves_words(ends, multiplier)):
            raise NotImplementedError(f"sums from {ends[0]} to {ends[1]} that need 64 bits")
        rows[:, channel] = _constant(outputs.pop())
    return _packed(bias, rows)


def _leaves_words(ends: tuple[int, int], multiplier: Multiplier) -> bool:
    """Tell whether a sum between two may have an output that wraps."""
    return max(map(abs, ends)) * int16.reduced_mantissa(multiplier) >> (15 - multiplier.shift) > INT32_MAX - 1


def empty_rescaling(blocks: int) -> npt.NDArray[np.int32]:
    """Return the words of so many blocks whose sums start with 0 and are rescaled elsewhere."""
    return np.zeros((blocks, _WORDS, LANES), np.int32)


def repeated_rescaling(multiplier: Multiplier, more_left: int = 0) -> npt.NDArray[np.int32]:
    """Return the words of one block whose lanes have one multiplier, of values times 2**more_left."""
    left, right = max(multiplier.shift, 0) + more_left, max(-multiplier.shift, 0)
    row = 0, multiplier.mantissa, left + 1, right, 1 << right >> 1
    return np.repeat(np.array([row], np.int32).T, LANES, axis=1)[None]


def _packed(start: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Words by block."""
    channels = len(start)
    flat = np.zeros((_WORDS, -(-channels // LANES) * LANES), np.int64)
    flat[1:] = np.array(_constant(0))[:, None]  # of lanes without a channel
    flat[0, :channels], flat[1:, :channels] = start, rows
    # Sums wrap, their ends do not.
    return np.ascontiguousarray(flat.astype(np.int32).reshape(_WORDS, -1, LANES).transpose(1, 0, 2))


def _doubled(values: npt.NDArray[np.int64], mantissa: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """S(a, b) of words."""
    return (values * mantissa + (1 << 30)) >> 31


def _output(multiplier: Multiplier, ends: tuple[int, int], zero: int, bounds: Bounds) -> int:
    """The one output of a channel with sums from end to end; NotImplementedError where there are several."""
    words = (wrapped(multiply_twice_rounded(each, multiplier) + zero) for each in ends)
    outputs = {max(bounds.low, min(bounds.high, each)) for each in words}
    if len(outputs) > 1:
        raise NotImplementedError(
            f"sums from {ends[0]} to {ends[1]} times {multiplier.mantissa} * 2**{multiplier.shift - 31} "
            "go over 32 bits"
        )
    return outputs.pop()


def _constant(output: int) -> tuple[int, int, int, int]:
    """The words of a channel whose outputs are all the same: of any sum and sign."""
    return 0, 1, 1, 2 * output + 1


def is_plain(words: npt.NDArray[np.int32]) -> bool:
    """Tell whether all channels have a shift to the right, and so none to the left.

    Then the library takes the sign of a sum for that of its product, which is shorter. Where the product of a
    negative sum is 0, one less changes nothing: `half` is 1 at least in the bits that are shifted out.
    """
    return bool((words[:, 3] >= 1).all())
