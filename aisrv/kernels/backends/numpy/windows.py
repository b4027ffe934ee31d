"""Windows over a padded copy of an input, as views; taps that never meet the input are left out.

A dilation or a pool's filter may be as large as a file says; what is copied and looped over stays below three
times the input in each dimension.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from aisrv.kernels.arithmetic import Window
from aisrv.kernels.backends.numpy.steps import Array


class TapSpan(NamedTuple):
    """The taps of windows that meet the input, along one dimension of a padded copy.

    Output `i` has tap `first + j`, j < `taps`, at `skip + i * stride + j * dilation` of the copy, which has
    `before` values before the input's and `size` in all.
    """

    outputs: int
    first: int
    taps: int
    stride: int
    dilation: int
    skip: int
    before: int
    size: int


def span(window: Window, taps: int, stride: int, dilation: int, inputs: int) -> TapSpan:
    """Find the taps that meet the input; none, where all of them lie beyond both ends."""
    reach = (window.outputs - 1) * stride
    first = max(0, -((reach - window.before) // dilation))
    last = min(taps - 1, (inputs - 1 + window.before) // dilation)
    count = max(0, last - first + 1)
    if count == 0:
        return TapSpan(window.outputs, 0, 0, stride, 1, 0, 0, inputs)
    start = first * dilation - window.before
    before, skip = max(0, -start), max(0, start)
    end = skip + reach + (count - 1) * dilation + 1
    return TapSpan(window.outputs, first, count, stride, dilation, skip, before, max(before + inputs, end))


def padded_input(
    source: Array, spans: tuple[TapSpan, TapSpan], border: int, dtype: npt.DTypeLike, copies: int = 1
) -> tuple[Array, Callable[[], None]]:
    """Prepare a padded copy of a picture [batch, height, width, channels], and what fills its middle anew.

    Each channel comes so many times, one beside the other.
    """
    down, across = spans
    batches, height, width, channels = source.shape
    image = np.full((batches, down.size, across.size, channels, copies), border, dtype)
    middle = image[:, down.before : down.before + height, across.before : across.before + width]
    source = source[..., None]
    if copies == 1 and middle.flags.c_contiguous:
        middle, source = middle.reshape(-1), source.reshape(-1)

    def load() -> None:
        middle[...] = source

    return image.reshape(batches, down.size, across.size, channels * copies), load


def windows(image: Array, spans: tuple[TapSpan, TapSpan]) -> Array:
    """Every window of a padded copy: [batch, row, column, tap row, tap column, channel]."""
    down, across = spans
    batches, _, _, channels = image.shape
    picture, line, pixel, item = image.strides
    return as_strided(
        image[:, down.skip :, across.skip :],
        (batches, down.outputs, across.outputs, down.taps, across.taps, channels),
        (
            picture,
            down.stride * line,
            across.stride * pixel,
            down.dilation * line,
            across.dilation * pixel,
            item,
        ),
        writeable=False,
    )
