"""Accumulators to int8 in NumPy: a few passes over the data in place, without a temporary.

How an accumulator is rescaled is found and proven by `numpy.steps`. Constants of channels are tiled, because
NumPy's inner loops are slow where they are short.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.steps import BYTE_OFFSET, Array, Line, Rescaling, Steps, TwoLines, Wrapping
from aisrv.kernels.backends.numpy.words import word_scale, wrapped

BLOCK: Final = 1 << 15
"""Elements that are requantized at a time, so that their float64 stay in a core's second cache."""

_INNER: Final = 1 << 10
"""Elements of a tile of constants: an inner loop of NumPy should have at least so many."""


class Workspace:
    """Arrays that kernels of one backend share, and how accumulators leave them.

    Nothing in the arrays outlives an invocation.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, np.dtype[Any]], Array] = {}

    def array(self, name: str, elements: int, dtype: npt.DTypeLike) -> Array:
        """Return an array, contents unspecified: the same memory for the same name and type."""
        key = name, np.dtype(dtype)
        array = self._arrays.get(key)
        if array is None or len(array) < elements:
            array = self._arrays[key] = np.zeros(elements, dtype)
        return array[:elements]

    def requantize(self, accumulators: Array, output: npt.NDArray[np.int8], how: Rescaling) -> Kernel:
        """Prepare the conversion of accumulators to the output; see `requantize`."""
        return requantize(accumulators, output, how, self)


def tiled_rows(channels: int, rows: int) -> int:
    """Return the number of rows of channels in a tile of constants."""
    return max(1, min(rows, -(-_INNER // max(1, channels))))


def padded_elements(channels: int, rows: int) -> int:
    """Return the number of elements that `requantize` needs for rows of channels: whole tiles."""
    tile = tiled_rows(channels, rows)
    return -(-rows // tile) * tile * channels


def requantize(
    accumulators: Array, output: npt.NDArray[np.int8], how: Rescaling, workspace: Workspace
) -> Kernel:
    """Prepare output[i] = rescaled accumulators[i], where element i is of channel i % channels.

    `accumulators` are flat and have `padded_elements`, those behind the output's length being unused; they
    are overwritten.
    """
    if isinstance(how, Steps):
        return _search(accumulators, output, how)
    if isinstance(how, Wrapping):
        return _wrap(accumulators, output, how)
    line = how if isinstance(how, Line) else how.line
    channels = len(line.slope)
    rows = len(output) // channels
    tile = tiled_rows(channels, rows)
    row = tile * channels
    constants = [np.tile(each, tile) for each in (line.low, line.high, line.slope, line.offset)]
    at_once = max(row, BLOCK // row * row)
    wide = workspace.array("wide", min(at_once, len(accumulators)), np.float64)
    words = workspace.array("words", len(wide), np.int32)
    shift = np.tile(how.shift, tile) if isinstance(how, TwoLines) else None
    kernels = []
    for start in range(0, len(accumulators), at_once):
        block = accumulators[start : start + at_once]
        target = output[start : start + at_once]
        scratch = _shaped(block, row), _shaped(wide[: len(block)], row), _shaped(words[: len(block)], row)
        if shift is None:
            kernels.append(_one_line_kernel(scratch, wide[: len(target)], target, constants))
        else:
            zero = how.zero if isinstance(how, TwoLines) else 0
            kernels.append(_two_line_kernel(scratch, words[: len(target)], target, constants, shift, zero))
    return kernels[0] if len(kernels) == 1 else _all(kernels)


def _shaped(flat: Array, row: int) -> Array:
    return flat if len(flat) == row else flat.reshape(-1, row)


def _constant(value: int, dtype: npt.DTypeLike, elements: int) -> Array:
    # NumPy takes as long to look at one number as to go through a short array.
    return np.full(elements if elements <= _INNER else (), value, dtype)


def _all(kernels: list[Kernel]) -> Kernel:
    def invoke() -> None:
        for kernel in kernels:
            kernel()

    return invoke


def _one_line_kernel(
    scratch: tuple[Array, Array, Array], result: Array, output: Array, constants: list[Array]
) -> Kernel:
    accumulators, wide, _ = scratch
    low, high, slope, offset = constants
    target, top = output.view(np.uint8), _constant(BYTE_OFFSET, np.uint8, output.size)
    maximum, minimum, multiply, add, flip = np.maximum, np.minimum, np.multiply, np.add, np.bitwise_xor

    def invoke() -> None:
        maximum(accumulators, low, out=accumulators)
        minimum(accumulators, high, out=accumulators)
        wide[...] = accumulators
        multiply(wide, slope, wide)
        add(wide, offset, wide)
        target[...] = result
        flip(target, top, target)

    return invoke


def _two_line_kernel(
    scratch: tuple[Array, Array, Array],
    result: Array,
    output: Array,
    constants: list[Array],
    shift: Array,
    zero: int,
) -> Kernel:
    accumulators, wide, words = scratch
    low, high, slope, offset = constants
    nudge = wide.view(np.int32).reshape(-1)[: words.size].reshape(words.shape)  # of words: wide is done with
    bit, origin = _constant(30, np.int32, words.shape[-1]), _constant(zero, np.int8, output.size)
    maximum, minimum, multiply, add, right = np.maximum, np.minimum, np.multiply, np.add, np.right_shift

    def invoke() -> None:
        maximum(accumulators, low, out=accumulators)
        minimum(accumulators, high, out=accumulators)
        wide[...] = accumulators
        multiply(wide, slope, wide)
        add(wide, offset, wide)
        words[...] = wide
        right(words, bit, nudge)
        add(words, nudge, words)
        right(words, shift, words)
        output[...] = result
        if zero:
            add(output, origin, output)

    return invoke


def _search(accumulators: Array, output: npt.NDArray[np.int8], steps: Steps) -> Kernel:
    channels = len(steps.thresholds)
    values = accumulators[: len(output)].reshape(-1, channels)
    outputs = output.reshape(-1, channels)
    thresholds = steps.thresholds.astype(np.float64)

    def invoke() -> None:
        for channel, each in enumerate(thresholds):
            outputs[:, channel] = each.searchsorted(values[:, channel], "right") + steps.bounds.low

    return invoke


def _wrap(accumulators: Array, output: npt.NDArray[np.int8], how: Wrapping) -> Kernel:
    channels = len(how.multipliers)
    values, outputs = accumulators[: len(output)].reshape(-1, channels), output.reshape(-1, channels)
    scale = word_scale(how.multipliers, how.rounding)

    def invoke() -> None:
        scaled = scale(values.astype(np.int64) + how.bias) + how.zero
        outputs[...] = np.clip(wrapped(scaled), *how.bounds)

    return invoke
