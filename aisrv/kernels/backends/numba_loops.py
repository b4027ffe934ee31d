"""Inner loops compiled by Numba; importing this takes its time, as it imports Numba.

Machine code is cached beside this file, else in the user's cache folder. The loops compute as the
NumPy backend does.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Loop = TypeVar("Loop", bound=Callable[..., None])


def _compiled(function: Loop) -> Loop:
    loop: Loop = numba.njit(cache=True, error_model="numpy")(function)
    return loop


def prepared(loop: Loop, *arguments: Array | int) -> Loop:
    """Compile a loop for arguments like these without calling it; return it."""
    loop.compile(tuple(numba.typeof(each) for each in arguments))  # type: ignore[attr-defined]  # Numba's
    return loop


@_compiled
def rescale(
    sums: Array,
    bias: Array,
    mantissa: Array,
    left: Array,
    right: Array,
    zero: int,
    low: int,
    high: int,
    output: Array,
) -> None:
    """Write clamp(M(sum + bias, m, s) + zero), [rows, channels], with double rounding; words wrap."""
    rows, channels = output.shape
    for row in range(rows):
        for channel in range(channels):
            value = np.int64(np.int32((np.int64(sums[row, channel]) + bias[channel]) << left[channel]))
            value = (value * mantissa[channel] + (1 << 30)) >> 31
            if right[channel]:
                value = (value + (1 << (right[channel] - 1)) - (value < 0)) >> right[channel]
            output[row, channel] = min(max(np.int64(np.int32(value + zero)), low), high)


@_compiled
def depthwise(
    image: Array, taps: Array, stride_h: int, stride_w: int, dilation_h: int, dilation_w: int, sums: Array
) -> None:
    """Add up the products of [rows, columns, channels] taps with a padded image, for every window."""
    batches, down, across, channels = sums.shape
    rows, columns, _ = taps.shape
    for batch in range(batches):
        for y in range(down):
            for x in range(across):
                target = sums[batch, y, x]
                target[:] = 0
                for row in range(rows):
                    for column in range(columns):
                        source = image[
                            batch, y * stride_h + row * dilation_h, x * stride_w + column * dilation_w
                        ]
                        factors = taps[row, column]
                        for channel in range(channels):
                            target[channel] += source[channel] * factors[channel]


@_compiled
def pairs(first: Array, second: Array, table: Array, output: Array) -> None:
    """Look up table[256 * a + b] for each pair; a shorter input repeats."""
    if len(first) == len(second):
        for at in range(len(output)):
            output[at] = table[(np.intp(first[at]) << 8) | np.intp(second[at])]
    else:
        for at in range(len(output)):
            output[at] = table[(np.intp(first[at % len(first)]) << 8) | np.intp(second[at % len(second)])]


@_compiled
def softmax(values: Array, exponentials: Array, rounded: Array, output: Array) -> None:
    """Softmax of each row, as `softmax.softmax_row`."""
    rows, classes = values.shape
    half = np.int64(1) << 30
    for row in range(rows):
        largest = np.int64(-128)
        for at in range(classes):
            largest = max(largest, np.int64(values[row, at]))
        total = np.int64(0)
        for at in range(classes):
            total += rounded[largest - values[row, at]]
        total &= 0xFFFFFFFF
        zeros = 32
        while zeros and total >> (32 - zeros):
            zeros -= 1
        argument = (total << zeros) - (np.int64(1) << 31)
        middle = (argument + (np.int64(1) << 31)) >> 1
        x = 1515870810 + ((middle * -1010580540 + half) >> 31)
        for _ in range(3):
            x += ((x * ((np.int64(1) << 29) - ((middle * x + half) >> 31)) + half) >> 31) << 2
        factor = min(x << 1, np.int64(2147483647))
        shift = 35 - zeros
        for at in range(classes):
            product = (exponentials[largest - values[row, at]] * factor + half) >> 31
            result = (product + (np.int64(1) << (shift - 1))) >> shift
            output[row, at] = min(result, 255) - 128
