"""The kernels of int16 activations and int8 weights in NumPy.

Sums of products are exact in float64, whatever their order: 32768 * 128 * taps stays below 2**53. What
follows is integer arithmetic in int64, a few passes over the outputs. Source: `aisrv.kernels.int16`.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic, checks, int16
from aisrv.kernels.arithmetic import Rounding
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.conv import float_type, pieces
from aisrv.kernels.backends.numpy.requantize import Workspace
from aisrv.kernels.backends.numpy.steps import Array
from aisrv.kernels.backends.numpy.windows import padded_input, windows
from aisrv.kernels.backends.numpy.words import Words, wide_scale, word_scale
from aisrv.kernels.params import (
    INT16,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
)
from aisrv.kernels.windows import Spans, conv_spans, overlapping_taps, pool_spans

_LARGEST_INPUT: Final = 1 << 15


class NumpyInt16:
    """Kernels of int16 activations, with one policy of rounding."""

    def __init__(self, rounding: Rounding, workspace: Workspace) -> None:
        self._rounding = rounding
        self._workspace = workspace

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D: products of matrices over copies of the windows."""
        checks.check_conv2d(params, INT16)
        spans = conv_spans(params)
        whole = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape).transpose(1, 2, 3, 0)
        weights = overlapping_taps(whole, spans)
        right = weights.reshape(-1, weights.shape[3]).astype(_sum_type(weights.reshape(-1, weights.shape[3])))
        sums, finish = self._accumulators(params, params.output_shape[3])
        if not weights.size:
            return finish
        image, load = _image(params, spans, right.dtype)
        steps: list[tuple[Array, Array, Array]] = []
        start, taps = 0, len(right)
        for piece in pieces(windows(image, spans), taps * right.itemsize):
            rows = piece.size // taps
            columns = self._workspace.array("columns", rows * taps, right.dtype)
            steps.append((columns.reshape(piece.shape), piece, sums[start : start + rows]))
            start += rows

        def invoke() -> None:
            load()
            for copy, piece, result in steps:
                copy[...] = piece
                result[...] = np.dot(copy.reshape(-1, taps), right)
            finish()

        return invoke

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D: one pass over the picture for each tap."""
        checks.check_depthwise_conv2d(params, INT16)
        spans = conv_spans(params)
        weights = overlapping_taps(
            np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[0], spans
        )
        taps = weights.astype(_sum_type(weights.reshape(-1, weights.shape[2])))
        sums, finish = self._accumulators(params, params.output_shape[3])
        if not weights.size:
            return finish
        image, load = _image(params, spans, taps.dtype, params.depth_multiplier)
        view = windows(image, spans)
        result = sums.reshape(params.output_shape)

        def invoke() -> None:
            load()
            result[...] = np.einsum("bhwijc,ijc->bhwc", view, taps)
            finish()

        return invoke

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED: one product of matrices."""
        checks.check_fully_connected(params, INT16)
        outputs, inputs = params.weights_shape
        weights = np.frombuffer(params.weights, np.int8).reshape(outputs, inputs).T.astype(np.int64)
        if params.weights_per_channel_quant is None:
            weights -= params.weights_quant.zero_point
        right = weights.astype(_sum_type(weights))
        sums, finish = self._accumulators(params, outputs)
        source = np.frombuffer(params.input, np.int16).reshape(-1, inputs)

        def invoke() -> None:
            sums[...] = np.dot(source.astype(right.dtype), right)
            finish()

        return invoke

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D: sums over the taps inside of the input, by their number."""
        checks.check_pool(params, INT16)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, INT16)
        down, across = spans = pool_spans(params)
        image, load = _pooled_image(params, spans, 0)
        ones, fill = padded_input(np.ones((1, *params.input_shape[1:3], 1), np.int16), spans, 0, np.int64)
        fill()
        counts = windows(ones, spans).sum(axis=(3, 4))
        view, half = windows(image, (down, across)), counts // 2
        output = np.frombuffer(params.output, np.int16).reshape(params.output_shape)

        def invoke() -> None:
            load()
            total = view.sum(axis=(3, 4))
            means = np.where(total > 0, (total + half) // counts, -((half - total) // counts))
            output[...] = np.clip(means, *bounds)

        return invoke

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D; nothing is smaller than what borders are filled with."""
        checks.check_pool(params, INT16)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, INT16)
        spans = pool_spans(params)
        image, load = _pooled_image(params, spans, INT16.low)
        view = windows(image, spans)
        output = np.frombuffer(params.output, np.int16).reshape(params.output_shape)

        def invoke() -> None:
            load()
            output[...] = np.clip(view.max(axis=(3, 4)), *bounds)

        return invoke

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX by tables of exponentials and reciprocals."""
        checks.check_softmax(params, INT16)
        exponentials, reciprocals = np.array(int16.exponentials()), np.array(int16.reciprocals())
        scale = word_scale((int16.softmax_multiplier(params),), self._rounding)
        values = np.frombuffer(params.input, np.int16).reshape(params.input_shape)
        output = np.frombuffer(params.output, np.int16).reshape(params.input_shape)

        def invoke() -> None:
            wide = values.astype(np.int64)
            differences = scale(wide - wide.max(axis=1, keepdims=True)) + INT16.high
            powers = _look_up(np.clip(differences, INT16.low, INT16.high), exponentials)
            total = powers.sum(axis=1, keepdims=True) & 0xFFFFFFFF
            zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
            shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
            factor = _look_up(np.clip(shifted - (1 << 15) - (1 << 16), INT16.low, INT16.high), reciprocals)
            right = 31 - zeros
            output[...] = np.clip((powers * factor + (1 << (right - 1))) >> right, 0, INT16.high)

        return invoke

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD: both inputs on a common scale, 15 bits wider, summed and scaled back."""
        checks.check_add(params, INT16)
        multipliers = arithmetic.add_multipliers(params, int16.ADD_LEFT_SHIFT)
        first, second, total = (word_scale((each,), self._rounding) for each in multipliers)
        one, two = np.frombuffer(params.input1, np.int16), np.frombuffer(params.input2, np.int16)
        output = np.frombuffer(params.output, np.int16)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, INT16)

        def invoke() -> None:
            left = first(one.astype(np.int64) << int16.ADD_LEFT_SHIFT)
            right = second(two.astype(np.int64) << int16.ADD_LEFT_SHIFT)
            output[...] = np.clip(total(left + right), *bounds)

        return invoke

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL; a shorter input repeats."""
        checks.check_mul(params, INT16)
        scale = word_scale((arithmetic.mul_multiplier(params),), self._rounding)
        shortest = min(len(params.input1), len(params.input2))
        one, two = (np.frombuffer(each, np.int16) for each in (params.input1, params.input2))
        output = np.frombuffer(params.output, np.int16).reshape(-1, shortest)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, INT16)

        def invoke() -> None:
            products = one.reshape(-1, shortest).astype(np.int64) * two.reshape(-1, shortest)
            output[...] = np.clip(scale(products), *bounds)

        return invoke

    def _accumulators(
        self, params: Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams, channels: int
    ) -> tuple[Words, Kernel]:
        """Rows of sums for each channel, zeros at first, and what scales them to the output."""
        if isinstance(params, FullyConnectedParams):
            multipliers = arithmetic.fully_connected_multipliers(params)
        else:
            multipliers = arithmetic.conv_multipliers(params)
        is_wide = int16.is_wide(params.bias)
        if is_wide:
            int16.check_wide(multipliers, params.bias)
        scale = wide_scale(multipliers) if is_wide else word_scale(multipliers, self._rounding)
        bias = np.zeros(channels, np.int64) if params.bias is None else np.array(params.bias, np.int64)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, INT16)
        output = np.frombuffer(params.output, np.int16).reshape(-1, channels)
        sums = np.zeros(output.shape, np.int64)

        def finish() -> None:
            output[...] = np.clip(scale(sums + bias), *bounds)

        return sums, finish


def _look_up(values: Words, table: Words) -> Words:
    index, offset = 256 + (values >> 7), values & 0x7F
    base = table[index]
    return np.asarray(base + (((table[index + 1] - base) * offset + 64) >> 7))


def _sum_type(products: Array) -> npt.DTypeLike:
    """The float type that holds the sums of weights [taps, channels] by inputs."""
    return float_type(int((_LARGEST_INPUT * np.abs(products).sum(axis=0)).max(initial=0)))


def _image(
    params: Conv2dParams | DepthwiseConv2dParams,
    spans: Spans,
    dtype: npt.DTypeLike,
    copies: int = 1,
) -> tuple[Array, Kernel]:
    source = np.frombuffer(params.input, np.int16).reshape(params.input_shape)
    return padded_input(source, spans, 0, dtype, copies)


def _pooled_image(params: PoolParams, spans: Spans, border: int) -> tuple[Array, Kernel]:
    source = np.frombuffer(params.input, np.int16).reshape(params.input_shape)
    return padded_input(source, spans, border, np.int64)
