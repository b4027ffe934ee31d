"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED in NumPy: exact sums of products in float arithmetic.

A float32 product of matrices is exact in any order of its additions while 128 * sum |w| < 2**24 for every
output channel, w being a weight less its zero point; that is decided from the weights, and float64 serves
where it does not hold. Input zero points are folded into the bias, and fill the borders of padded inputs.
Windows are a strided view of a padded input: one copy makes them rows of a matrix; 1x1 windows need none.
Depthwise sums are one einsum over such a view. Source: "The INT8 kernel engine", section Fast and exact in
NumPy.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from aisrv.kernels import arithmetic
from aisrv.kernels.arithmetic import Multiplier, Rounding
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.ranges import may_wrap, sum_range
from aisrv.kernels.backends.numpy.requantize import Workspace, padded_elements
from aisrv.kernels.backends.numpy.steps import Array, Rescaling, Wrapping, rescaling, rescaling_steps
from aisrv.kernels.backends.numpy.windows import padded_input, windows
from aisrv.kernels.errors import InternalError
from aisrv.kernels.params import Conv2dParams, DepthwiseConv2dParams, FullyConnectedParams
from aisrv.kernels.windows import conv_spans, overlapping_taps

COLUMNS_BYTES: Final = 1 << 19
"""Bytes of windows that are copied before they are multiplied: they should stay in a core's second cache."""

_LARGEST_INPUT: Final = 128


class Accumulation:
    """The accumulators of a layer, and their conversion to its output.

    `products` are the weights as [taps, channels], less their zero points.
    """

    def __init__(
        self,
        params: Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams,
        products: npt.NDArray[np.int64],
        multipliers: tuple[Multiplier, ...],
        rounding: Rounding,
        workspace: Workspace,
    ) -> None:
        reach = _LARGEST_INPUT * np.abs(products).sum(axis=0)
        self.dtype = float_type(int(reach.max()))
        self.workspace = workspace
        channels = products.shape[1]
        bias = np.zeros(channels, np.int64) if not params.bias else np.array(params.bias, np.int64)
        zero_in, zero = params.input_quant.zero_point, params.output_quant.zero_point
        sums = sum_range(bias, products, zero_in)
        bias -= zero_in * products.sum(axis=0)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
        how: Rescaling
        if may_wrap(sums, multipliers, zero).any():
            how = Wrapping(multipliers, bias, bounds, zero, rounding)
        else:
            how = rescaling(rescaling_steps(multipliers, bias, reach, bounds, zero, rounding), self.dtype)
        output = np.frombuffer(params.output, np.int8)
        rows = len(output) // channels
        flat = workspace.array("accumulators", padded_elements(channels, rows), self.dtype)
        self.rows: Array = flat[: len(output)].reshape(rows, channels)
        self.finish = workspace.requantize(flat, output, how)


def float_type(reach: int) -> npt.DTypeLike:
    """The smaller float type that holds all integers up to `reach`; InternalError where none does."""
    if reach < 1 << 24:
        return np.float32
    if reach < 1 << 53:
        return np.float64
    raise InternalError(f"sums of products of up to {reach} are beyond 53 bits")


def conv2d(params: Conv2dParams, rounding: Rounding, workspace: Workspace) -> Kernel:
    """Prepare CONV_2D: one product of matrices."""
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape).transpose(1, 2, 3, 0)
    return _convolve(params, weights, rounding, workspace)


def _convolve(
    params: Conv2dParams | DepthwiseConv2dParams, weights: Array, rounding: Rounding, workspace: Workspace
) -> Kernel:
    """Convolve with weights [rows, columns, input channels, output channels]."""
    spans = conv_spans(params)
    weights = overlapping_taps(weights, spans)
    weights = weights.reshape(-1, weights.shape[3])
    sums = Accumulation(params, weights, arithmetic.conv_multipliers(params), rounding, workspace)
    if not weights.size:
        return _constant(sums)
    right = np.ascontiguousarray(weights, sums.dtype)
    source = np.frombuffer(params.input, np.int8).reshape(params.input_shape)
    if all((each.taps, each.skip, each.before) == (1, 0, 0) for each in spans):
        _, down, across, _ = params.output_shape
        chosen = source[:, :: params.stride_h, :: params.stride_w][:, :down, :across]
        return _pointwise(chosen, sums, right)
    image, load = padded_input(source, spans, params.input_quant.zero_point, sums.dtype)
    steps: list[tuple[Array, Array, Array, Array]] = []
    start, taps = 0, len(right)
    for piece in pieces(windows(image, spans), taps * right.itemsize):
        rows = piece.size // taps
        columns = workspace.array("columns", rows * taps, sums.dtype)
        result = sums.rows[start : start + rows]
        steps.append((columns.reshape(piece.shape), piece, columns.reshape(rows, taps), result))
        start += rows
    dot, finish = np.dot, sums.finish
    if len(steps) == 1:
        copy, piece, matrix, result = steps[0]

        def invoke_whole() -> None:
            load()
            copy[...] = piece
            dot(matrix, right, result)
            finish()

        return invoke_whole

    def invoke() -> None:
        load()
        for copy, piece, matrix, result in steps:
            copy[...] = piece
            dot(matrix, right, result)
        finish()

    return invoke


def pieces(view: Array, window_bytes: int) -> list[Array]:
    """Cut windows so that copies of them fit into a cache: whole pictures, else rows, else parts of a row."""
    batches, down, across = view.shape[:3]
    at_once = max(1, COLUMNS_BYTES // window_bytes)
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


def _constant(sums: Accumulation) -> Kernel:
    """Prepare a layer whose windows never meet the input: its sums are 0."""
    rows, finish = sums.rows, sums.finish

    def invoke() -> None:
        rows[...] = 0
        finish()

    return invoke


def _pointwise(source: Array, sums: Accumulation, right: Array) -> Kernel:
    flat = sums.workspace.array("columns", source.size, sums.dtype)
    matrix, copy = flat.reshape(-1, source.shape[3]), flat.reshape(source.shape)
    if source.flags.c_contiguous:
        source, copy = source.reshape(-1), flat
    result, finish, dot = sums.rows, sums.finish, np.dot

    def invoke() -> None:
        copy[...] = source
        dot(matrix, right, result)
        finish()

    return invoke


def depthwise_conv2d(params: DepthwiseConv2dParams, rounding: Rounding, workspace: Workspace) -> Kernel:
    """Prepare DEPTHWISE_CONV_2D: an einsum over the taps; a product of matrices for one input channel."""
    whole = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[0]
    if params.input_shape[3] == 1:
        return _convolve(params, whole[:, :, None], rounding, workspace)
    spans = conv_spans(params)
    weights = overlapping_taps(whole, spans)
    rows, columns, channels = weights.shape
    sums = depthwise_accumulation(params, weights, rounding, workspace)
    if not weights.size:
        return _constant(sums)
    source = np.frombuffer(params.input, np.int8).reshape(params.input_shape)
    image, load = padded_input(
        source, spans, params.input_quant.zero_point, sums.dtype, params.depth_multiplier
    )
    batches, down, across, _ = params.output_shape
    row = across * channels
    taps = weights.reshape(rows, columns, 1, channels).astype(sums.dtype)
    tiled = np.ascontiguousarray(np.broadcast_to(taps, (rows, columns, across, channels)))
    tiled = tiled.reshape(rows, columns, row)
    image = image[:, spans[0].skip :, spans[1].skip :]
    picture, line, pixel, item = image.strides
    gather: list[tuple[Array, Array]] = []
    between = params.dilation_w_factor * pixel
    if params.stride_w > 1:
        # Columns that are apart are brought together, once for each tap of a row: long inner loops then.
        shape = columns, batches, image.shape[1], across, channels
        chosen = workspace.array("columns", math.prod(shape), sums.dtype).reshape(shape)
        for tap in range(columns):
            first = tap * params.dilation_w_factor
            gather.append((chosen[tap], image[:, :, first :: params.stride_w][:, :, :across]))
        image = chosen
        between, picture, line, _, item = chosen.strides
    view = as_strided(
        image,
        (rows, columns, batches, down, row),
        (params.dilation_h_factor * line, between, picture, params.stride_h * line, item),
        writeable=False,
    )
    result, finish, einsum = sums.rows.reshape(batches, down, row), sums.finish, np.einsum

    def invoke() -> None:
        load()
        for target, part in gather:
            target[...] = part
        einsum("abihn,abn->ihn", view, tiled, out=result)
        finish()

    return invoke


def depthwise_accumulation(
    params: DepthwiseConv2dParams, weights: npt.NDArray[np.int64], rounding: Rounding, workspace: Workspace
) -> Accumulation:
    """Create the accumulators of a depthwise layer from its weights [rows, columns, channels]."""
    products = weights.reshape(-1, weights.shape[2])
    return Accumulation(params, products, arithmetic.conv_multipliers(params), rounding, workspace)


def fully_connected(params: FullyConnectedParams, rounding: Rounding, workspace: Workspace) -> Kernel:
    """Prepare FULLY_CONNECTED: one product of a matrix with a vector, or a matrix for a batch."""
    outputs, inputs = params.weights_shape
    weights = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).astype(np.int64)
    if params.weights_per_channel_quant is None:
        weights -= params.weights_quant.zero_point
    multipliers = arithmetic.fully_connected_multipliers(params)
    sums = Accumulation(params, weights.T, multipliers, rounding, workspace)
    source = np.frombuffer(params.input, np.int8)
    values = workspace.array("columns", len(source), sums.dtype)
    # A row of many outputs is summed output by output; of few, each output on its own.
    right = np.ascontiguousarray(weights.T, sums.dtype)
    left = np.ascontiguousarray(weights, sums.dtype)
    finish: Kernel = sums.finish
    dot = np.dot
    if len(source) == inputs:
        vector = sums.rows.reshape(outputs)
        first, second = (left, values) if outputs < inputs else (values, right)

        def invoke_one() -> None:
            values[...] = source
            dot(first, second, vector)
            finish()

        return invoke_one
    matrix, result = values.reshape(-1, inputs), sums.rows

    def invoke() -> None:
        values[...] = source
        dot(matrix, right, result)
        finish()

    return invoke
