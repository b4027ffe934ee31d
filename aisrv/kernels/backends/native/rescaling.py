"""The rescaling of sums to outputs as the library's words, where every number of it fits into 32 bits.

The library computes R(S(x * 2**l, m), r) + zero point in int32. Whether that holds is decided here, for each
channel, from the smallest and the largest sum that its weights can make. A channel whose outputs are all the
same becomes that constant: trained networks have dead channels with extreme multipliers. For any other that
does not fit, NotImplementedError is raised, and another backend serves. Source: "Speed of the INT8 kernels",
section Exact double rounding.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    INT32_MIN,
    Bounds,
    Multiplier,
    doubling_high_multiply,
    multiply_twice_rounded,
)

LANES: Final = 16
"""Channels of a block."""

_WORDS: Final = 5


def pack_rescaling(
    start: npt.NDArray[np.int64],
    bias: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int64],
    input_zero: int,
    multipliers: Sequence[Multiplier],
    output_zero: int,
    bounds: Bounds,
) -> npt.NDArray[np.int32]:
    """Return the words [block, 5, lane]: start of the sum, multiplier, shifts left and right, half.

    `weights` are [taps, channels]; sums are bias + sum of (x - input_zero) * weight, x being any int8.
    """
    positive, negative = np.maximum(weights, 0).sum(axis=0), np.minimum(weights, 0).sum(axis=0)
    lowest, highest = INT8_MIN - input_zero, INT8_MAX - input_zero
    least = bias + lowest * positive + highest * negative
    most = bias + highest * positive + lowest * negative
    channels = len(bias)
    words = np.zeros((-(-channels // LANES), _WORDS, LANES), np.int32)
    words[:, 1:] = np.array(_constant(0))[:, None]  # of lanes without a channel
    rows = np.array(
        [
            _channel(multiplier, int(low), int(high), output_zero, bounds)
            for multiplier, low, high in zip(multipliers, least, most, strict=True)
        ],
        np.int64,
    )
    for channel in range(channels):
        words[channel // LANES, 1:, channel % LANES] = rows[channel]
    flat = np.zeros(len(words) * LANES, np.int64)
    flat[:channels] = start
    words[:, 0, :] = flat.astype(np.int32).reshape(-1, LANES)  # sums wrap, their ends do not
    return words


def _channel(
    multiplier: Multiplier, least: int, most: int, zero: int, bounds: Bounds
) -> tuple[int, int, int, int]:
    """The words of one channel, of which the sums are from `least` to `most`."""
    left, right = max(multiplier.shift, 0), max(-multiplier.shift, 0)
    if multiplier.mantissa and max(-least, most) <= INT32_MAX >> (left + 1):
        half = (1 << right >> 1) + (zero << right)
        low = doubling_high_multiply(least << left, multiplier.mantissa) - 1 + half
        high = doubling_high_multiply(most << left, multiplier.mantissa) + half
        if min(low, half) >= INT32_MIN and max(high, half) <= INT32_MAX:
            return multiplier.mantissa, left + 1, right, half
    outputs = {
        max(bounds.low, min(bounds.high, multiply_twice_rounded(each, multiplier) + zero))
        for each in (least, most)
    }
    if len(outputs) > 1:
        raise NotImplementedError(
            f"sums from {least} to {most} times {multiplier.mantissa} * 2**{multiplier.shift - 31} "
            "go over 32 bits"
        )
    return _constant(outputs.pop())


def _constant(output: int) -> tuple[int, int, int, int]:
    """The words of a channel whose outputs are all the same: of any sum and sign."""
    return 0, 1, 1, 2 * output + 1


def is_plain(words: npt.NDArray[np.int32]) -> bool:
    """Whether all channels have a shift to the right and none to the left, and no multiplier of 2**30.

    Then a product is negative where its sum is, which the library has shorter code for.
    """
    multiplier, left, right = words[:, 1], words[:, 2], words[:, 3]
    return bool((left == 1).all() and (right >= 1).all() and (multiplier != 1 << 30).all())
