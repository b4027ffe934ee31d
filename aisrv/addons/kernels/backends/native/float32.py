"""Layers of float32 as steps of the library: each output has the sum that TensorFlow Lite Micro has.

A sum starts with 0, takes one product after the other, row by row of its window, and the bias at its end.
Lanes and tiles compute several outputs at once, never parts of one, so results are the same bits on every
variant. Sources: `reference/conv.h`, `reference/depthwiseconv_float.h`, `reference/fully_connected.h` of
TensorFlow Lite.
"""

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backends.native.formats import Format, Target
from aisrv.addons.kernels.backends.native.pictures import (
    Offsets,
    Segments,
    Source,
    as_offsets,
    direct,
    needs_no_padding,
    padded,
    pixel_offsets,
    window_segments,
)
from aisrv.addons.kernels.backends.native.rescaling import LANES, empty_rescaling
from aisrv.addons.kernels.backends.native.steps import STRUCTURES, Step, aligned, make_step
from aisrv.addons.kernels.backends.native.team import shared_items
from aisrv.addons.kernels.backends.native.tiles import (
    FLOAT32_PIXELS,
    choose_groups,
    chunk_pixels,
    shared_chunk,
)
from aisrv.addons.kernels.float32 import activation_bounds
from aisrv.addons.kernels.params import (
    FLOAT32,
    Bias,
    Conv2dParams,
    DepthwiseConv2dParams,
    FullyConnectedParams,
    FusedActivation,
)
from aisrv.addons.kernels.windows import Spans, conv_spans

_FLOATS: Final = Format(np.float32, 1)
FLOAT32_TARGETS: Final = {
    variant: Target(FLOAT32, _FLOATS, _FLOATS, tiles) for variant, tiles in FLOAT32_PIXELS.items()
}

_BIAS: Final = 1
"""The row of a block's words where biases are; those before are zeros, with which sums start."""
_WORK: Final = 32
"""Work of a depthwise output, in multiply-accumulates of other convolutions."""

Weights = npt.NDArray[np.float32]


def conv2d(params: Conv2dParams, target: Target) -> Step:
    """Prepare CONV_2D."""
    return _convolution(params, _array(params.weights, params.weights_shape).transpose(1, 2, 3, 0), target)


def depthwise_conv2d(params: DepthwiseConv2dParams, target: Target) -> Step:
    """Prepare DEPTHWISE_CONV_2D: like CONV_2D if there is one input channel."""
    whole = _array(params.weights, params.weights_shape)[0]
    if params.input_shape[3] == 1:
        return _convolution(params, whole[:, :, None], target)
    return _depthwise(params, whole)


def fully_connected(params: FullyConnectedParams, target: Target) -> Step:
    """Prepare FULLY_CONNECTED: one pixel for each row of the batch."""
    outputs, inputs = params.weights_shape
    rows = len(params.input) // inputs
    source = direct(params.input, rows, inputs)
    pixels = as_offsets(np.arange(rows) * inputs)
    weights = _array(params.weights, (outputs, inputs)).T
    return _tiled(params, target, source, pixels, [(0, inputs)], weights, inputs)


def float_bits(value: float) -> int:
    """The bits of a float32, as the library takes bounds."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits


def bit_bounds(activation: FusedActivation) -> dict[str, Any]:
    """The bounds of an activation as fields of a structure."""
    low, high = activation_bounds(activation)
    return {"low": float_bits(low), "high": float_bits(high)}


def _array(data: memoryview, shape: tuple[int, ...]) -> Weights:
    return np.frombuffer(data, np.float32).reshape(shape)


def _taps(weights: Weights, spans: Spans) -> Weights:
    """The weights [rows, columns, ...] of the taps that meet the input."""
    down, across = spans
    found = weights[down.first : down.first + down.taps, across.first : across.first + across.taps]
    if not found.size:
        raise NotImplementedError("windows that never meet the input")
    return found


def _source(
    params: Conv2dParams | DepthwiseConv2dParams, spans: Spans, weights: Weights, repeats: int
) -> Source:
    """A copy with borders of zeros, which add nothing to a sum."""
    if not np.isfinite(weights).all():
        raise NotImplementedError("weights that make something of zeros")
    return padded(params, spans, _FLOATS, repeats)


def _convolution(params: Conv2dParams | DepthwiseConv2dParams, weights: Weights, target: Target) -> Step:
    """Convolve with weights [rows, columns, input channels, output channels]."""
    spans = conv_spans(params)
    taps = _taps(weights, spans)
    batches, height, width, channels = params.input_shape
    if needs_no_padding(params, spans):
        source = direct(params.input, batches, height, width, channels)
    else:
        source = _source(params, spans, taps, 1)
    segments = window_segments(spans, channels, spans[1].size * channels)
    pixels = pixel_offsets(spans, source, batches, channels)
    pixel_values = channels * min(taps.shape[0], spans[0].stride) * min(taps.shape[1], spans[1].stride)
    return _tiled(params, target, source, pixels, segments, taps.reshape(-1, taps.shape[3]), pixel_values)


def _tiled(
    params: Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams,
    target: Target,
    source: Source,
    pixels: Offsets,
    segments: Segments,
    weights: Weights,
    pixel_values: int,
) -> Step:
    """Prepare sums of windows: weights [taps, channels] in the order of the segments."""
    channels = weights.shape[1]
    blocks = -(-channels // LANES)
    filled = np.zeros((len(weights), blocks, LANES), np.float32)
    filled.reshape(len(weights), -1)[:, :channels] = weights
    groups = choose_groups(target.tiles, len(pixels), blocks)
    # By group: [tap, block, lane].
    parts = [filled[:, each.first_block : each.first_block + each.blocks].reshape(-1) for each in groups]
    starts = np.cumsum([0, *(part.nbytes for part in parts)])
    table = [(*each, int(start)) for each, start in zip(groups, starts, strict=False)]
    chunk = chunk_pixels(groups, pixel_values * filled.itemsize)
    work = len(pixels) * weights.size
    if target.threads > 1:
        chunk = shared_chunk(groups, chunk, len(pixels), shared_items(work, target.threads))
    words = empty_rescaling(blocks)
    words[:, _BIAS] = _by_block(params.bias, channels).view(np.int32)
    return make_step(
        "CONVOLUTION_FLOAT32",
        "convolution",
        work,
        source.keep_alive,
        items=-(-len(pixels) // chunk) * len(groups),
        picture=source.picture,
        wide=STRUCTURES["wide_sums"](),
        input=source.address,
        output=params.output,
        weights=aligned(np.concatenate(parts)),
        rescaling=aligned(words),
        pixels=pixels,
        segments=np.array([(offset, offset + length) for offset, length in segments], np.int32),
        groups=np.array(table, np.int64),
        pixel_count=len(pixels),
        segment_count=len(segments),
        group_count=len(groups),
        channels=channels,
        chunk=chunk,
        plain=1,
        extreme=0,
        **bit_bounds(params.activation),
    )


def _depthwise(params: DepthwiseConv2dParams, weights: Weights) -> Step:
    """Prepare windows of one channel each with weights [rows, columns, channels]."""
    spans = down, across = conv_spans(params)
    taps = _taps(weights, spans)
    channels = taps.shape[2]
    flat = taps.reshape(-1, channels)
    source = _source(params, spans, flat, params.depth_multiplier)
    rows = (down.skip + np.arange(down.taps) * down.dilation)[:, None] * source.row
    columns = (across.skip + np.arange(across.taps) * across.dilation)[None, :] * channels
    blocks = -(-channels // LANES)
    filled = np.zeros((len(flat), blocks * LANES), np.float32)
    filled[:, :channels] = flat
    pixels = pixel_offsets(spans, source, params.input_shape[0], channels)
    return make_step(
        "DEPTHWISE_FLOAT32",
        "float32_depthwise",
        len(params.output) * _WORK,
        source.keep_alive,
        items=len(pixels),
        picture=source.picture,
        input=source.address,
        output=params.output,
        weights=aligned(filled.reshape(-1, blocks, LANES).transpose(1, 0, 2)),
        bias=_by_block(params.bias, channels),
        pixels=pixels,
        taps=as_offsets(rows + columns),
        pixel_count=len(pixels),
        tap_count=len(flat),
        channels=channels,
        **bit_bounds(params.activation),
    )


def _by_block(bias: Bias | None, channels: int) -> Weights:
    """Biases [block, lane], zeros without one and behind the last channel."""
    found: npt.NDArray[Any] = np.zeros((-(-channels // LANES), LANES), np.float32)
    if bias is not None:
        found.reshape(-1)[:channels] = np.frombuffer(bias, np.float32)
    return found
