"""Windows over a padded copy of an input, as views; taps that never meet the input are left out."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from aisrv.kernels.backends.numpy.steps import Array
from aisrv.kernels.windows import Spans


def padded_input(
    source: Array, spans: Spans, border: int, dtype: npt.DTypeLike, copies: int = 1
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


def windows(image: Array, spans: Spans) -> Array:
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
