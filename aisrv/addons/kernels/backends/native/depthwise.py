"""DEPTHWISE_CONV_2D as steps of the library: windows of one channel each."""

from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic
from aisrv.addons.kernels.arithmetic import INT8_MIN
from aisrv.addons.kernels.backends.native.formats import HALF_TAPS, Target
from aisrv.addons.kernels.backends.native.pictures import as_offsets, padded, pixel_offsets
from aisrv.addons.kernels.backends.native.rescaling import LANES, empty_rescaling, is_plain
from aisrv.addons.kernels.backends.native.steps import STRUCTURES, Step, aligned, make_step
from aisrv.addons.kernels.backends.native.sums import pack_words, wide_sums
from aisrv.addons.kernels.params import INT16, DepthwiseConv2dParams
from aisrv.addons.kernels.windows import TapSpan, conv_spans, conv_windows, overlapping_taps

_WORK: Final = 32
"""Work of an output, in multiply-accumulates of other convolutions."""


def depthwise(params: DepthwiseConv2dParams, weights: npt.NDArray[np.int8], target: Target) -> Step:
    """Prepare windows with weights [rows, columns, channels]."""
    if target.has_3x3 and _is_plain_3x3(params):
        return _depthwise_3x3(params, weights, target)
    return _depthwise(params, weights, target)


def _is_plain_3x3(params: DepthwiseConv2dParams) -> bool:
    return (
        params.weights_shape[1:3] == (3, 3)
        and params.depth_multiplier == 1
        and (params.dilation_h_factor, params.dilation_w_factor) == (1, 1)
        and params.stride_h == params.stride_w
        and params.stride_h in (1, 2)
    )


def _depthwise_3x3(params: DepthwiseConv2dParams, weights: npt.NDArray[np.int8], target: Target) -> Step:
    """Prepare windows of 3x3 with weights [3, 3, channels]: columns, for two rows of outputs."""
    batches, height, width, channels = params.input_shape
    multipliers = arithmetic.conv_multipliers(params)
    sign = target.depthwise.sign
    rescaling = pack_words(params, weights.reshape(9, channels), multipliers, target, sign)
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
        len(params.output) * _WORK,
        items=batches * -(-down.outputs // (2 if params.stride_h == 1 else 1)),
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


def _depthwise(params: DepthwiseConv2dParams, weights: npt.NDArray[np.int8], target: Target) -> Step:
    """Prepare windows of any form with weights [rows, columns, channels]."""
    spans = conv_spans(params)
    taps = overlapping_taps(weights, spans)
    if not taps.size:
        raise NotImplementedError("windows that never meet the input")
    channels = taps.shape[2]
    flat = taps.reshape(-1, channels)
    multipliers = arithmetic.conv_multipliers(params)
    blocks = -(-channels // LANES)
    kind = "DEPTHWISE_INT16" if target.elements is INT16 else "DEPTHWISE"
    format_, is_interleaved = target.depthwise, target.is_interleaved
    wide = STRUCTURES["wide_sums"]()
    keep_alive: tuple[object, ...] = ()
    try:
        rescaling = pack_words(params, flat, multipliers, target, format_.sign)
    except NotImplementedError:
        if target.elements is not INT16:
            raise
        rescaling = empty_rescaling(blocks)
        wide, keep_alive = wide_sums(params, flat, multipliers)
        kind, format_, is_interleaved = "WIDE_DEPTHWISE_INT16", HALF_TAPS, False
    down, across = spans
    source = padded(params, spans, format_, params.depth_multiplier)
    rows = (down.skip + np.arange(down.taps) * down.dilation)[:, None] * source.row
    columns = (across.skip + np.arange(across.taps) * across.dilation)[None, :] * channels
    filled_taps = format_.padded(len(flat))
    offsets = np.zeros(filled_taps, np.int32)
    offsets[: len(flat)] = as_offsets(rows + columns)
    filled = np.zeros((filled_taps, blocks * LANES), format_.element)
    filled[: len(flat), :channels] = flat
    pixels = pixel_offsets(spans, source, params.input_shape[0], channels)
    if not wide.is_needed and (joined := _joined(channels, across)) > 1:
        lanes = np.arange(LANES)
        lanes[: joined * channels] %= channels
        rescaling, filled = aligned(rescaling[:, :, lanes]), filled[:, lanes]
        pixels, channels = np.ascontiguousarray(pixels[::joined]), joined * channels
    # [block, group, lane, tap]
    packed = filled.reshape(-1, format_.depth, blocks, LANES).transpose(2, 0, 3, 1)
    if is_interleaved:
        packed = packed[:, :, _INTERLEAVED]
    packed = aligned(packed)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, target.elements)
    return make_step(
        kind,
        "depthwise",
        len(params.output) * _WORK,
        (*source.keep_alive, *keep_alive),
        items=len(pixels),
        picture=source.picture,
        wide=wide,
        input=source.address,
        output=params.output,
        weights=packed,
        rescaling=rescaling,
        pixels=pixels,
        taps=offsets,
        pixel_count=len(pixels),
        tap_groups=filled_taps // format_.unit,
        channels=channels,
        plain=is_plain(rescaling),
        extreme=bool((flat == INT8_MIN).any()),
        low=bounds.low,
        high=bounds.high,
    )


def _joined(channels: int, across: TapSpan) -> int:
    """Windows of few channels that are computed as one of more: what they read follows each other, too."""
    most = LANES // channels if across.stride == 1 else 1
    return max((count for count in range(1, most + 1) if across.outputs % count == 0), default=1)


_INTERLEAVED: Final = [*range(4), *range(8, 12), *range(4, 8), *range(12, 16)]
"""Channels in the order in which AVX2 interleaves two rows of 16 words."""
