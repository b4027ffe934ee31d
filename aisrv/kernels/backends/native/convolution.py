"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED as steps of the library: packed weights, tables of offsets.

A window is read in segments: bytes that follow each other in memory. A 1x1 window is one segment of the input
itself; others are read from a copy with borders. Source: "Speed of the INT8 kernels", section Kernels.
"""

import ctypes
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic
from aisrv.kernels.arithmetic import INT8_MIN, Multiplier
from aisrv.kernels.backends.native.library import Variant
from aisrv.kernels.backends.native.rescaling import LANES, is_plain, pack_rescaling
from aisrv.kernels.backends.native.steps import STRUCTURES, Step, address, aligned, make_step, structure
from aisrv.kernels.backends.native.tiles import choose_groups, chunk_pixels
from aisrv.kernels.params import Conv2dParams, DepthwiseConv2dParams, FullyConnectedParams
from aisrv.kernels.windows import Spans, conv_spans, conv_windows, overlapping_taps

SPARE: Final = 128
"""Elements behind a copy, which kernels may read and do not use."""

_DEPTHWISE_WORK: Final = 32
"""Work of an output of a depthwise layer, in multiply-accumulates of others."""
_SIGN: Final = 128
"""Offset of each input byte, so that it has no sign."""

_Offsets = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Format:
    """Elements that one instruction of a variant multiplies."""

    element: npt.DTypeLike
    depth: int
    """Elements of a window that are multiplied by one instruction."""
    sign: int = 0
    """Offset that the kernel adds to each input."""
    multiple: int = 0
    """Elements that are loaded at once, where that is more than `depth`."""
    pairs_apart: bool = False
    """Whether the weights of four channels are a pair of each, then the other pair of each."""

    def padded(self, length: int) -> int:
        """Elements of a segment with those that are loaded behind it."""
        multiple = self.multiple or self.depth
        return -(-length // multiple) * multiple


FORMATS: Final = {
    Variant.AVX512_VNNI: Format(np.int8, 4, _SIGN),
    Variant.AVX_VNNI: Format(np.int8, 4, _SIGN),
    Variant.AVX2: Format(np.int16, 2),
    Variant.NEON_DOT: Format(np.int8, 4, multiple=16),
    Variant.NEON: Format(np.int8, 4, pairs_apart=True),
}
"""Of convolutions. Plain C has none: NumPy multiplies faster."""
DEPTHWISE_FORMATS: Final = {
    Variant.AVX512_VNNI: FORMATS[Variant.AVX512_VNNI],
    Variant.AVX_VNNI: FORMATS[Variant.AVX2],
    Variant.AVX2: FORMATS[Variant.AVX2],
    Variant.NEON_DOT: Format(np.int8, 1),
    Variant.NEON: Format(np.int8, 1),
}
"""Of windows of one channel each; `depth` counts taps."""
_TWO_WORDS: Final = (Variant.AVX2, Variant.AVX_VNNI)
"""Variants whose depthwise kernels interleave two rows."""


def _format(variant: Variant) -> Format:
    if variant not in FORMATS:
        raise NotImplementedError(f"convolutions in {variant.value} C")
    return FORMATS[variant]


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


def conv2d(params: Conv2dParams, variant: Variant) -> Step:
    """Prepare CONV_2D."""
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape).transpose(1, 2, 3, 0)
    return _convolution(params, weights, variant)


def fully_connected(params: FullyConnectedParams, variant: Variant) -> Step:
    """Prepare FULLY_CONNECTED: one pixel for each row of the batch."""
    if params.weights_per_channel_quant is None and params.weights_quant.zero_point:
        raise NotImplementedError("weights with a zero point")
    outputs, inputs = params.weights_shape
    rows = len(params.input) // inputs
    format_ = _format(variant)
    weights = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).T
    if _readable_in_place(format_, inputs):
        source = _direct(params.input, rows, inputs)
    else:
        source = _copied(params.input, rows, 1, inputs, inputs, 1, 0, params.input_quant.zero_point, format_)
    pixels = (np.arange(rows) * source.plane).astype(np.int32)
    multipliers = arithmetic.fully_connected_multipliers(params)
    return _tiled(params, variant, source, pixels, [(0, inputs)], weights, multipliers, inputs)


def depthwise_conv2d(params: DepthwiseConv2dParams, variant: Variant) -> Step:
    """Prepare DEPTHWISE_CONV_2D: like CONV_2D if there is one input channel."""
    _format(variant)
    whole = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[0]
    if params.input_shape[3] == 1:
        return _convolution(params, whole[:, :, None], variant)
    if variant is Variant.AVX512_VNNI and _is_plain_3x3(params):
        return _depthwise_3x3(params, whole)
    return _depthwise(params, whole, variant)


def _convolution(
    params: Conv2dParams | DepthwiseConv2dParams, weights: npt.NDArray[np.int8], variant: Variant
) -> Step:
    """Convolve with weights [rows, columns, input channels, output channels]."""
    format_, spans = _format(variant), conv_spans(params)
    taps = overlapping_taps(weights, spans)
    if not taps.size:
        raise NotImplementedError("windows that never meet the input")
    channels = params.input_shape[3]
    segments = _segments(spans, channels, spans[1].size * channels)
    in_place = all(_readable_in_place(format_, length) for _, length in segments)
    if in_place and _needs_no_padding(params, spans):
        source = _direct(params.input, params.input_shape[0], *params.input_shape[1:])
    else:
        source = _padded(params, spans, format_)
    pixels = _pixels(spans, source, params.input_shape[0], channels)
    multipliers = arithmetic.conv_multipliers(params)
    flat = taps.reshape(-1, taps.shape[3])
    pixel_bytes = channels * min(taps.shape[0], spans[0].stride) * min(taps.shape[1], spans[1].stride)
    return _tiled(params, variant, source, pixels, segments, flat, multipliers, pixel_bytes)


def _readable_in_place(format_: Format, length: int) -> bool:
    return format_.element == np.int8 and format_.padded(length) == length


def _needs_no_padding(params: Conv2dParams | DepthwiseConv2dParams, spans: Spans) -> bool:
    return all(
        span.before == 0 and span.size == size
        for span, size in zip(spans, params.input_shape[1:3], strict=True)
    )


def _direct(source: memoryview, batches: int, *shape: int) -> Source:
    plane = len(source) // batches
    row = plane // shape[0] if len(shape) > 1 else plane
    return Source(STRUCTURES["picture"](), address(source), row, plane, (source,))


def _padded(
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
    return _copied(
        params.input, batches, height, width * channels, row, down.size, start, zero, format_, repeats
    )


def _copied(
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


def _segments(spans: Spans, channels: int, row: int) -> list[tuple[int, int]]:
    """Offset and length of what follows each other in a window, in the order of the weights."""
    down, across = spans
    segments: list[tuple[int, int]] = []
    for tap_row in range(down.taps):
        for tap_column in range(across.taps):
            offset = (down.skip + tap_row * down.dilation) * row
            offset += (across.skip + tap_column * across.dilation) * channels
            if segments and sum(segments[-1]) == offset:
                segments[-1] = segments[-1][0], segments[-1][1] + channels
            else:
                segments.append((offset, channels))
    return segments


def _pixels(spans: Spans, source: Source, batches: int, channels: int) -> _Offsets:
    down, across = spans
    planes = np.arange(batches)[:, None, None] * source.plane
    rows = np.arange(down.outputs)[None, :, None] * down.stride * source.row
    columns = np.arange(across.outputs)[None, None, :] * across.stride * channels
    return _offsets(planes + rows + columns)


def _offsets(numbers: npt.NDArray[np.int64]) -> _Offsets:
    if numbers.max() > np.iinfo(np.int32).max:
        raise NotImplementedError("an input of more than 2 GB")
    return numbers.reshape(-1).astype(np.int32)


def _rescaling(
    params: Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams,
    weights: npt.NDArray[np.int64],
    multipliers: tuple[Multiplier, ...],
    sign: int,
) -> npt.NDArray[np.int32]:
    """The rescaling of sums with weights [taps, channels]."""
    channels = weights.shape[1]
    bias = np.zeros(channels, np.int64) if not params.bias else np.array(params.bias, np.int64)
    zero_in, zero_out = params.input_quant.zero_point, params.output_quant.zero_point
    start = bias - (zero_in + sign) * weights.sum(axis=0)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    return aligned(pack_rescaling(start, bias, weights, zero_in, multipliers, zero_out, bounds))


def _tiled(
    params: Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams,
    variant: Variant,
    source: Source,
    pixels: _Offsets,
    segments: list[tuple[int, int]],
    weights: npt.NDArray[np.int8] | npt.NDArray[np.int64],
    multipliers: tuple[Multiplier, ...],
    pixel_bytes: int,
) -> Step:
    """Prepare sums of windows: weights [taps, channels] in the order of the segments."""
    format_ = _format(variant)
    channels = weights.shape[1]
    rescaling = _rescaling(params, weights.astype(np.int64), multipliers, format_.sign)
    padded = _pad_segments(weights, segments, format_)
    blocks = padded.shape[2]
    groups = choose_groups(variant, len(pixels), blocks)
    parts, table, at = [], [], 0
    for group in groups:
        part = padded[:, :, group.first_block : group.first_block + group.blocks]
        part = np.ascontiguousarray(part.transpose(0, 2, 3, 1))
        if format_.pairs_apart:
            part = part.reshape(*part.shape[:2], LANES // 4, 4, 2, 2).swapaxes(3, 4)
        parts.append(part.reshape(-1))
        table.append((group.pixels, group.blocks, group.first_block, at))
        at += part.nbytes
    packed, order = aligned(np.concatenate(parts)), np.array(table, np.int64)
    ends = [(offset, offset + format_.padded(length)) for offset, length in segments]
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    return make_step(
        "CONVOLUTION",
        "convolution",
        len(pixels) * weights.size,
        source.keep_alive,
        picture=source.picture,
        input=source.address,
        output=params.output,
        weights=packed,
        rescaling=rescaling,
        pixels=pixels,
        segments=np.array(ends, np.int32),
        groups=order,
        pixel_count=len(pixels),
        segment_count=len(segments),
        group_count=len(groups),
        channels=channels,
        chunk=chunk_pixels(groups, pixel_bytes * np.dtype(format_.element).itemsize),
        plain=is_plain(rescaling),
        extreme=bool((weights == INT8_MIN).any()),
        low=bounds.low,
        high=bounds.high,
    )


def _pad_segments(
    weights: npt.NDArray[np.int8] | npt.NDArray[np.int64], segments: list[tuple[int, int]], format_: Format
) -> npt.NDArray[np.int8]:
    """Weights as [depth, element, block, lane], zeros behind each segment and behind the last channel."""
    channels = weights.shape[1]
    blocks = -(-channels // LANES)
    parts, at = [], 0
    for _, length in segments:
        part = np.zeros((format_.padded(length), blocks * LANES), format_.element)
        part[:length, :channels] = weights[at : at + length]
        parts.append(part.reshape(-1, format_.depth, blocks, LANES))
        at += length
    return np.concatenate(parts)


def _is_plain_3x3(params: DepthwiseConv2dParams) -> bool:
    return (
        params.weights_shape[1:3] == (3, 3)
        and params.depth_multiplier == 1
        and (params.dilation_h_factor, params.dilation_w_factor) == (1, 1)
        and params.stride_h == params.stride_w
        and params.stride_h in (1, 2)
    )


def _depthwise_3x3(params: DepthwiseConv2dParams, weights: npt.NDArray[np.int8]) -> Step:
    """Prepare windows of 3x3 with weights [3, 3, channels]: columns, for two rows of outputs."""
    batches, height, width, channels = params.input_shape
    multipliers = arithmetic.conv_multipliers(params)
    rescaling = _rescaling(params, weights.reshape(9, channels).astype(np.int64), multipliers, _SIGN)
    blocks = len(rescaling)
    # [upper or lower, column, channel, row of the input]
    packed = np.zeros((2, 3, blocks * LANES, 4), np.int8)
    packed[0, :, :channels, :3] = weights.transpose(1, 2, 0)
    packed[1, :, :channels, 1:] = weights.transpose(1, 2, 0)
    packed = aligned(packed.reshape(2, 3, blocks, LANES, 4).transpose(2, 0, 1, 3, 4))
    border = np.full(width * channels, params.input_quant.zero_point, np.int8)
    down, across = conv_windows(params)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    return make_step(
        "DEPTHWISE_3X3",
        "depthwise_3x3",
        len(params.output) * _DEPTHWISE_WORK,
        input=params.input,
        output=params.output,
        weights=packed,
        rescaling=rescaling,
        border=border,
        batches=batches,
        height=height,
        width=width,
        channels=channels,
        out_height=down.outputs,
        out_width=across.outputs,
        stride=params.stride_h,
        top=down.before,
        left=across.before,
        zero=params.input_quant.zero_point,
        plain=is_plain(rescaling),
        low=bounds.low,
        high=bounds.high,
    )


def _depthwise(params: DepthwiseConv2dParams, weights: npt.NDArray[np.int8], variant: Variant) -> Step:
    """Prepare windows of any form with weights [rows, columns, channels]."""
    format_, spans = DEPTHWISE_FORMATS[variant], conv_spans(params)
    taps = overlapping_taps(weights, spans)
    if not taps.size:
        raise NotImplementedError("windows that never meet the input")
    down, across = spans
    channels = taps.shape[2]
    source = _padded(params, spans, format_, params.depth_multiplier)
    rows = (down.skip + np.arange(down.taps) * down.dilation)[:, None] * source.row
    columns = (across.skip + np.arange(across.taps) * across.dilation)[None, :] * channels
    groups = -(-taps.shape[0] * taps.shape[1] // format_.depth)
    offsets = np.zeros(groups * format_.depth, np.int32)
    offsets[: rows.size * columns.size] = _offsets(rows + columns)
    flat = taps.reshape(-1, channels)
    rescaling = _rescaling(params, flat, arithmetic.conv_multipliers(params), format_.sign)
    blocks = len(rescaling)
    padded = np.zeros((groups * format_.depth, blocks * LANES), format_.element)
    padded[: len(flat), :channels] = flat
    # [block, group, lane, tap]
    packed = padded.reshape(groups, format_.depth, blocks, LANES).transpose(2, 0, 3, 1)
    if variant in _TWO_WORDS:
        packed = packed[:, :, _INTERLEAVED]
    packed = aligned(packed)
    pixels = _pixels(spans, source, params.input_shape[0], channels)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    return make_step(
        "DEPTHWISE",
        "depthwise",
        len(params.output) * _DEPTHWISE_WORK,
        source.keep_alive,
        picture=source.picture,
        input=source.address,
        output=params.output,
        weights=packed,
        rescaling=rescaling,
        pixels=pixels,
        taps=offsets,
        pixel_count=len(pixels),
        tap_groups=groups,
        channels=channels,
        plain=is_plain(rescaling),
        low=bounds.low,
        high=bounds.high,
    )


_INTERLEAVED: Final = [*range(4), *range(8, 12), *range(4, 8), *range(12, 16)]
"""Channels in the order in which AVX2 interleaves two rows of 16 words."""
