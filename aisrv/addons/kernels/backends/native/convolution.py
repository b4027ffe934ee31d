"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED as steps: packed weights in the order of tiles.

Source: "Speed of the INT8 kernels", section Kernels.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic
from aisrv.addons.kernels.arithmetic import INT8_MIN
from aisrv.addons.kernels.backends.native.depthwise import depthwise
from aisrv.addons.kernels.backends.native.formats import Format, Target
from aisrv.addons.kernels.backends.native.pictures import (
    Offsets,
    Segments,
    Source,
    copied,
    direct,
    needs_no_padding,
    padded,
    pixel_offsets,
    window_segments,
)
from aisrv.addons.kernels.backends.native.rescaling import LANES, is_plain
from aisrv.addons.kernels.backends.native.steps import Step, aligned, make_step
from aisrv.addons.kernels.backends.native.sums import Layer, Multipliers, layer_sums
from aisrv.addons.kernels.backends.native.team import shared_items
from aisrv.addons.kernels.backends.native.tiles import choose_groups, chunk_pixels, shared_chunk
from aisrv.addons.kernels.params import INT16, Conv2dParams, DepthwiseConv2dParams, FullyConnectedParams
from aisrv.addons.kernels.windows import conv_spans, overlapping_taps


def conv2d(params: Conv2dParams, target: Target) -> Step:
    """Prepare CONV_2D."""
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape).transpose(1, 2, 3, 0)
    return _convolution(params, weights, target)


def fully_connected(params: FullyConnectedParams, target: Target) -> Step:
    """Prepare FULLY_CONNECTED: one pixel for each row of the batch."""
    outputs, inputs = params.weights_shape
    weights: npt.NDArray[Any] = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).T
    if params.weights_per_channel_quant is None and params.weights_quant.zero_point:
        if target.elements is not INT16:
            raise NotImplementedError("weights with a zero point")
        weights = weights.astype(np.int64) - params.weights_quant.zero_point
    rows = len(params.input) // inputs
    if target.reads(inputs):
        source = direct(params.input, rows, inputs)
    else:
        zero = params.input_quant.zero_point
        source = copied(params.input, rows, 1, inputs, inputs, 1, 0, zero, target.format)
    pixels = (np.arange(rows) * source.plane).astype(np.int32)
    multipliers = arithmetic.fully_connected_multipliers(params)
    return _tiled(params, target, source, pixels, [(0, inputs)], weights, multipliers, inputs)


def depthwise_conv2d(params: DepthwiseConv2dParams, target: Target) -> Step:
    """Prepare DEPTHWISE_CONV_2D: like CONV_2D if there is one input channel."""
    whole = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[0]
    if params.input_shape[3] == 1:
        return _convolution(params, whole[:, :, None], target)
    return depthwise(params, whole, target)


def _convolution(
    params: Conv2dParams | DepthwiseConv2dParams, weights: npt.NDArray[np.int8], target: Target
) -> Step:
    """Convolve with weights [rows, columns, input channels, output channels]."""
    spans = conv_spans(params)
    taps = overlapping_taps(weights, spans)
    if not taps.size:
        raise NotImplementedError("windows that never meet the input")
    channels = params.input_shape[3]
    segments = window_segments(spans, channels, spans[1].size * channels)
    if all(target.reads(length) for _, length in segments) and needs_no_padding(params, spans):
        source = direct(params.input, params.input_shape[0], *params.input_shape[1:])
    else:
        source = padded(params, spans, target.format)
    pixels = pixel_offsets(spans, source, params.input_shape[0], channels)
    multipliers = arithmetic.conv_multipliers(params)
    flat = taps.reshape(-1, taps.shape[3])
    pixel_bytes = channels * min(taps.shape[0], spans[0].stride) * min(taps.shape[1], spans[1].stride)
    return _tiled(params, target, source, pixels, segments, flat, multipliers, pixel_bytes)


def _tiled(
    params: Layer,
    target: Target,
    source: Source,
    pixels: Offsets,
    segments: Segments,
    weights: npt.NDArray[Any],
    multipliers: Multipliers,
    pixel_bytes: int,
) -> Step:
    """Prepare sums of windows: weights [taps, channels] in the order of the segments."""
    if not target.tiles:
        raise NotImplementedError("convolutions in plain C")
    format_ = target.format
    channels = weights.shape[1]
    sums = layer_sums(params, weights, multipliers, segments, target)
    filled = _pad_segments(weights, sums.segments, format_)
    groups = choose_groups(target.tiles, len(pixels), filled.shape[2])
    parts, table, at = [], [], 0
    for group in groups:
        part = filled[:, :, group.first_block : group.first_block + group.blocks]
        part = np.ascontiguousarray(part.transpose(0, 2, 3, 1))
        if format_.apart:
            part = part.reshape(*part.shape[:2], LANES // 4, 4, -1, format_.apart).swapaxes(3, 4)
        parts.append(part.reshape(-1))
        table.append((group.pixels, group.blocks, group.first_block, at))
        at += part.nbytes
    packed, order = aligned(np.concatenate(parts)), np.array(table, np.int64)
    chunk = chunk_pixels(groups, pixel_bytes * np.dtype(format_.element).itemsize)
    work = len(pixels) * weights.size
    if target.threads > 1:
        chunk = shared_chunk(groups, chunk, len(pixels), shared_items(work, target.threads))
    ends = [(offset, offset + format_.padded(length)) for offset, length in sums.segments]
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, target.elements)
    is_int16 = target.elements is INT16
    return make_step(
        "CONVOLUTION_INT16" if is_int16 else "CONVOLUTION",
        "convolution",
        work,
        (*source.keep_alive, *sums.keep_alive),
        items=-(-len(pixels) // chunk) * len(groups),
        picture=source.picture,
        wide=sums.wide,
        input=source.address,
        output=params.output,
        weights=packed,
        rescaling=sums.rescaling,
        pixels=pixels,
        segments=np.array(ends, np.int32),
        groups=order,
        pixel_count=len(pixels),
        segment_count=len(sums.segments),
        group_count=len(groups),
        channels=channels,
        chunk=chunk,
        plain=is_plain(sums.rescaling),
        extreme=sums.are_wide if is_int16 else bool((weights == INT8_MIN).any()),
        low=bounds.low,
        high=bounds.high,
    )


def _pad_segments(weights: npt.NDArray[Any], segments: Segments, format_: Format) -> npt.NDArray[Any]:
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
