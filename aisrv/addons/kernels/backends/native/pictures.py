"""Where convolutions read: the input itself, or a copy of it with borders; and what of it each window has.

A window is read in segments: elements that follow each other in memory. A 1x1 window is one segment of the
input itself; others are read from a copy with borders. Source: "Speed of the INT8 kernels", section Kernels.
"""

import ctypes
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backends.native.formats import Format
from aisrv.addons.kernels.backends.native.steps import STRUCTURES, address, aligned, structure
from aisrv.addons.kernels.params import Conv2dParams, DepthwiseConv2dParams
from aisrv.addons.kernels.windows import Spans

SPARE: Final = 128
"""Elements behind a copy, which kernels may read and do not use."""

Offsets: TypeAlias = npt.NDArray[np.int32]
Segments: TypeAlias = list[tuple[int, int]]
"""Offset and length of what follows each other in a window, in the order of the weights."""


@dataclass(frozen=True, slots=True)
class Source:
    """Memory that windows are read from: the input itself, or a copy that is made before."""

    picture: ctypes.Structure
    address: int
    row: int
    """Elements from row to row."""
    plane: int
    """Elements from picture to picture."""
    keep_alive: tuple[object, ...]


def needs_no_padding(params: Conv2dParams | DepthwiseConv2dParams, spans: Spans) -> bool:
    """Tell whether a padded copy would be as large as the input."""
    return all(
        span.before == 0 and span.size == size
        for span, size in zip(spans, params.input_shape[1:3], strict=True)
    )


def direct(source: memoryview, batches: int, *shape: int) -> Source:
    """The input itself."""
    plane = len(source) // batches
    row = plane // shape[0] if len(shape) > 1 else plane
    return Source(STRUCTURES["picture"](), address(source), row, plane, (source,))


def padded(
    params: Conv2dParams | DepthwiseConv2dParams,
    spans: Spans,
    format_: Format,
    repeats: int = 1,
) -> Source:
    """A copy of the input with borders of its zero point, each channel so many times."""
    batches, height, width, channels = params.input_shape
    pixel = channels * repeats
    down, across = spans
    row = across.size * pixel
    start = down.before * row + across.before * pixel
    zero = params.input_quant.zero_point
    return copied(
        params.input, batches, height, width * channels, row, down.size, start, zero, format_, repeats
    )


def copied(
    data: memoryview,
    batches: int,
    height: int,
    width: int,
    row: int,
    rows: int,
    start: int,
    zero: int,
    format_: Format,
    repeats: int = 1,
) -> Source:
    """A copy of pictures of `height` times `width`, from element `start` on of `rows` rows of `row`."""
    plane = rows * row
    memory = aligned(np.full(batches * plane + SPARE, zero, format_.element))
    picture = structure(
        "picture",
        source=data,
        copy=address(memory) + start * memory.itemsize,
        batches=batches,
        height=height,
        width=width,
        line=row,
        plane=plane,
        repeats=repeats,
    )
    return Source(picture, address(memory), row, plane, (data, memory))


def window_segments(spans: Spans, channels: int, row: int) -> Segments:
    """The segments of a window."""
    down, across = spans
    segments: Segments = []
    for tap_row in range(down.taps):
        for tap_column in range(across.taps):
            offset = (down.skip + tap_row * down.dilation) * row
            offset += (across.skip + tap_column * across.dilation) * channels
            if segments and sum(segments[-1]) == offset:
                segments[-1] = segments[-1][0], segments[-1][1] + channels
            else:
                segments.append((offset, channels))
    return segments


def pixel_offsets(spans: Spans, source: Source, batches: int, channels: int) -> Offsets:
    """Where each window begins."""
    down, across = spans
    planes = np.arange(batches)[:, None, None] * source.plane
    rows = np.arange(down.outputs)[None, :, None] * down.stride * source.row
    columns = np.arange(across.outputs)[None, None, :] * across.stride * channels
    return as_offsets(planes + rows + columns)


def as_offsets(numbers: npt.NDArray[np.int64]) -> Offsets:
    """Numbers as the words that the library reads."""
    if numbers.max() > np.iinfo(np.int32).max:
        raise NotImplementedError("an input of more than 2 GB")
    return numbers.reshape(-1).astype(np.int32)
