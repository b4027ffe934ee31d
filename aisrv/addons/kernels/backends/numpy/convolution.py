"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED in NumPy: sums of products in floats, which BLAS multiplies.

A float holds every sum exactly: float32 if the largest possible one is below 2**24, else float64. Input zero
points are part of the bias, and fill the borders of padded inputs. Windows are a strided view of a padded
input; a copy makes them rows of a matrix. Source: "The INT8 kernel engine", section Fast and exact in NumPy.
"""

import math
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from aisrv.addons.kernels import arithmetic, int16
from aisrv.addons.kernels.arithmetic import Multiplier
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import Finish, Numbers, Output
from aisrv.addons.kernels.params import INT16, Conv2dParams, DepthwiseConv2dParams, FullyConnectedParams
from aisrv.addons.kernels.windows import Spans, conv_spans, overlapping_taps

Array: TypeAlias = npt.NDArray[Any]

COLUMNS_BYTES: Final = 1 << 19
"""Bytes of windows that are copied before they are multiplied: they should stay in a core's second cache."""


def conv2d(params: Conv2dParams, numbers: Numbers) -> Kernel:
    """Prepare CONV_2D."""
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)
    return _convolve(params, weights.transpose(1, 2, 3, 0), numbers)


def depthwise_conv2d(params: DepthwiseConv2dParams, numbers: Numbers) -> Kernel:
    """Prepare DEPTHWISE_CONV_2D: a pass for each tap; like CONV_2D if there is one input channel."""
    whole = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[0]
    if params.input_shape[3] == 1:
        return _convolve(params, whole[:, :, None], numbers)
    spans = conv_spans(params)
    weights = overlapping_taps(whole, spans)
    rows, columns, channels = weights.shape
    flat = weights.reshape(-1, channels)
    finish = layer_finish(params, flat, arithmetic.conv_multipliers(params), numbers)
    dtype = sum_type(flat, numbers)
    source = numbers.array(params.input).reshape(params.input_shape)
    image, load = padded_input(source, spans, params.input_quant.zero_point, dtype, params.depth_multiplier)
    view = windows(image, spans)
    # As long as a row of windows, so that NumPy's inner loops are.
    factors = np.repeat(weights.astype(dtype)[:, :, None], params.output_shape[2], axis=2)
    taps = [(view[:, :, :, y, x], factors[y, x]) for y in range(rows) for x in range(columns)]

    def invoke() -> None:
        load()
        sums, product = np.zeros((2, *params.output_shape), dtype)
        for values, factor in taps:
            np.multiply(values, factor, out=product)
            np.add(sums, product, out=sums)
        finish(sums.reshape(-1, channels))

    return invoke


def fully_connected(params: FullyConnectedParams, numbers: Numbers) -> Kernel:
    """Prepare FULLY_CONNECTED: one product of matrices."""
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape).T.astype(np.int64)
    if params.weights_per_channel_quant is None:
        weights -= params.weights_quant.zero_point
    finish = layer_finish(params, weights, arithmetic.fully_connected_multipliers(params), numbers)
    matrix = weights.astype(sum_type(weights, numbers))
    source = numbers.array(params.input).reshape(-1, len(weights))
    return lambda: finish(source.astype(matrix.dtype) @ matrix)


def layer_finish(
    params: Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams,
    weights: npt.NDArray[np.int64],
    multipliers: tuple[Multiplier, ...],
    numbers: Numbers,
) -> Finish:
    """Prepare what writes a layer's output, with `weights` [taps, channels] less their zero points."""
    is_wide = numbers.elements is INT16 and int16.is_wide(params.bias)
    if is_wide:
        int16.check_wide(multipliers, params.bias)
    bias = np.zeros(weights.shape[1], np.int64) if params.bias is None else np.array(params.bias, np.int64)
    bias -= params.input_quant.zero_point * weights.sum(axis=0)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, numbers.elements)
    return numbers.finish(
        params.output, Output(bias, multipliers, params.output_quant.zero_point, bounds, is_wide)
    )


def sum_type(weights: npt.NDArray[np.int64], numbers: Numbers) -> npt.DTypeLike:
    """The smaller float type that holds all sums with weights [taps, channels] exactly.

    A model below 2 GB has not the weights for a sum beyond float64's 53 bits.
    """
    reach = -numbers.elements.low * np.abs(weights).sum(axis=0).max(initial=0)
    return np.float32 if reach < 1 << 24 else np.float64


def _convolve(params: Conv2dParams | DepthwiseConv2dParams, weights: Array, numbers: Numbers) -> Kernel:
    """Convolve with weights [rows, columns, input channels, output channels]."""
    spans = conv_spans(params)
    taps = overlapping_taps(weights, spans)
    flat = taps.reshape(-1, taps.shape[3])
    finish = layer_finish(params, flat, arithmetic.conv_multipliers(params), numbers)
    matrix = flat.astype(sum_type(flat, numbers))
    source = numbers.array(params.input).reshape(params.input_shape)
    image, load = padded_input(source, spans, params.input_quant.zero_point, matrix.dtype)
    parts = pieces(windows(image, spans), len(matrix) * matrix.itemsize)

    def invoke() -> None:
        load()
        first = 0
        for part in parts:
            rows = math.prod(part.shape[:-3])
            finish(part.reshape(rows, -1) @ matrix, first)
            first += rows

    return invoke


def pieces(view: Array, window_bytes: int) -> list[Array]:
    """Cut windows so that copies of them fit into a cache: whole pictures, else rows, else parts of a row."""
    batches, down, across = view.shape[:3]
    at_once = max(1, COLUMNS_BYTES // max(1, window_bytes))
    if batches * down * across <= at_once:
        return [view]
    if across <= at_once:
        rows = at_once // across
        return [view[batch, row : row + rows] for batch in range(batches) for row in range(0, down, rows)]
    return [
        view[batch, row, column : column + at_once]
        for batch in range(batches)
        for row in range(down)
        for column in range(0, across, at_once)
    ]


def padded_input(
    source: Array, spans: Spans, border: int, dtype: npt.DTypeLike, copies: int = 1
) -> tuple[Array, Kernel]:
    """Prepare a padded copy of a picture [batch, height, width, channels], and what fills its middle anew.

    Each channel comes so many times, one beside the other.
    """
    down, across = spans
    batches, height, width, channels = source.shape
    image = np.full((batches, down.size, across.size, channels, copies), border, dtype)
    middle = image[:, down.before : down.before + height, across.before : across.before + width]

    def load() -> None:
        middle[...] = source[..., None]

    return image.reshape(batches, down.size, across.size, channels * copies), load


def windows(image: Array, spans: Spans) -> Array:
    """Every window of a padded copy: [batch, row, column, tap row, tap column, channel]."""
    down, across = spans
    batches, _, _, channels = image.shape
    picture, line, pixel, item = image.strides
    shape = batches, down.outputs, across.outputs, down.taps, across.taps, channels
    steps = down.stride * line, across.stride * pixel, down.dilation * line, across.dilation * pixel
    return as_strided(image[:, down.skip :, across.skip :], shape, (picture, *steps, item), writeable=False)
