"""The backend `reference`: plain integer loops, to be checked against the text of the arithmetic.

Slow and exact, for small shapes; other backends are compared with it. It needs no scratch and no alignment.
Source: "The INT8 kernel engine", section Arithmetic.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from aisrv.addons.kernels import arithmetic, checks, int16, windows
from aisrv.addons.kernels.arithmetic import ADD_LEFT_SHIFT, MULTIPLY, Bounds, Multiplier, Rounding
from aisrv.addons.kernels.backend import Kernel, ScratchFree
from aisrv.addons.kernels.int16 import Multiply
from aisrv.addons.kernels.params import (
    INT8,
    INT16,
    Bias,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementType,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    Shape4,
    SoftmaxParams,
)
from aisrv.addons.kernels.windows import Window


class ReferenceBackend(ScratchFree):
    """Kernels of plain Python integers, with one policy of rounding."""

    elements: ElementType = INT8
    add_left_shift: int = ADD_LEFT_SHIFT

    def __init__(self, rounding: Rounding = Rounding.DOUBLE) -> None:
        self.rounding: Final = rounding
        self.multiply: Multiply = MULTIPLY[rounding]

    @property
    def int16(self) -> "ReferenceInt16":
        """The kernels of int16 activations."""
        return ReferenceInt16(self.rounding)

    def scaling(self, bias: Bias | None, multipliers: Sequence[Multiplier]) -> Multiply:  # noqa: ARG002 (int16's)
        """Return the function that scales accumulators."""
        return self.multiply

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D: bias + sum of (x - zero point) * weight, scaled by output channel."""
        checks.check_conv2d(params, self.elements)
        spans, multipliers = windows.conv_windows(params), arithmetic.conv_multipliers(params)
        multiply = self.scaling(params.bias, multipliers)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)
        zero_in, zero_out = params.input_quant.zero_point, params.output_quant.zero_point
        channels = range(params.input_shape[3])

        def invoke() -> None:
            for at, (batch, row, column, out_channel) in enumerate(_indices(params.output_shape)):
                total = params.bias[out_channel] if params.bias else 0
                for (y, x), (tap_row, tap_column) in _conv_taps(params, spans, row, column):
                    for channel in channels:
                        value = params.input[_offset(params.input_shape, batch, y, x, channel)]
                        weight = params.weights[
                            _offset(params.weights_shape, out_channel, tap_row, tap_column, channel)
                        ]
                        total += (value - zero_in) * weight
                params.output[at] = _output(multiply(total, multipliers[out_channel]) + zero_out, bounds)

        return invoke

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D: output channel ic * depth_multiplier + j sees input channel ic alone."""
        checks.check_depthwise_conv2d(params, self.elements)
        spans, multipliers = windows.conv_windows(params), arithmetic.conv_multipliers(params)
        multiply = self.scaling(params.bias, multipliers)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)
        zero_in, zero_out = params.input_quant.zero_point, params.output_quant.zero_point

        def invoke() -> None:
            for at, (batch, row, column, out_channel) in enumerate(_indices(params.output_shape)):
                channel = out_channel // params.depth_multiplier
                total = params.bias[out_channel] if params.bias else 0
                for (y, x), (tap_row, tap_column) in _conv_taps(params, spans, row, column):
                    value = params.input[_offset(params.input_shape, batch, y, x, channel)]
                    weight = params.weights[
                        _offset(params.weights_shape, 0, tap_row, tap_column, out_channel)
                    ]
                    total += (value - zero_in) * weight
                params.output[at] = _output(multiply(total, multipliers[out_channel]) + zero_out, bounds)

        return invoke

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED: the weights have a zero point where they are scaled per tensor."""
        checks.check_fully_connected(params, self.elements)
        multipliers = arithmetic.fully_connected_multipliers(params)
        multiply = self.scaling(params.bias, multipliers)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)
        zero_in, zero_out = params.input_quant.zero_point, params.output_quant.zero_point
        zero_weight = 0 if params.weights_per_channel_quant else params.weights_quant.zero_point
        outputs, inputs = params.weights_shape

        def invoke() -> None:
            for at in range(len(params.output)):
                batch, output = divmod(at, outputs)
                total = params.bias[output] if params.bias else 0
                for i in range(inputs):
                    value = params.input[batch * inputs + i] - zero_in
                    total += value * (params.weights[output * inputs + i] - zero_weight)
                params.output[at] = _output(multiply(total, multipliers[output]) + zero_out, bounds)

        return invoke

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D: the mean of the taps inside of the input, half away from zero."""
        checks.check_pool(params, self.elements)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)

        def invoke() -> None:
            for at, values in enumerate(_pool_values(params)):
                params.output[at] = _clamp(_mean(values), bounds)

        return invoke

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D: the largest of the taps inside of the input."""
        checks.check_pool(params, self.elements)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)

        def invoke() -> None:
            for at, values in enumerate(_pool_values(params)):
                params.output[at] = _clamp(max(values), bounds)

        return invoke

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX over each row."""
        checks.check_softmax(params, self.elements)
        table = arithmetic.exponential_table(params.beta, params.input_quant.scale, self.rounding)
        batches, classes = params.input_shape

        def invoke() -> None:
            for start in range(0, batches * classes, classes):
                row = params.input[start : start + classes]
                for at, value in enumerate(arithmetic.softmax_row(row.tolist(), table), start):
                    params.output[at] = value

        return invoke

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD: both inputs on a common scale, 20 bits wider, summed and scaled back."""
        checks.check_add(params, self.elements)
        multipliers = arithmetic.add_multipliers(params, self.add_left_shift)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)
        zero1, zero2 = params.input1_quant.zero_point, params.input2_quant.zero_point
        zero_out = params.output_quant.zero_point

        def invoke() -> None:
            for at, (a, b) in enumerate(zip(params.input1, params.input2, strict=True)):
                scaled1 = self.multiply((a - zero1) << self.add_left_shift, multipliers.input1)
                scaled2 = self.multiply((b - zero2) << self.add_left_shift, multipliers.input2)
                total = self.multiply(scaled1 + scaled2, multipliers.output)
                params.output[at] = _output(total + zero_out, bounds)

        return invoke

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL: the product of the two values less their zero points, scaled."""
        checks.check_mul(params, self.elements)
        multiplier = arithmetic.mul_multiplier(params)
        bounds = arithmetic.activation_bounds(params.activation, params.output_quant, self.elements)
        zero1, zero2 = params.input1_quant.zero_point, params.input2_quant.zero_point
        zero_out = params.output_quant.zero_point

        def invoke() -> None:
            for at in range(len(params.output)):
                a = params.input1[at % len(params.input1)] - zero1
                b = params.input2[at % len(params.input2)] - zero2
                params.output[at] = _output(self.multiply(a * b, multiplier) + zero_out, bounds)

        return invoke


class ReferenceInt16(ReferenceBackend):
    """Kernels of int16 activations and int8 weights in plain Python integers."""

    elements = INT16
    add_left_shift = int16.ADD_LEFT_SHIFT

    def scaling(self, bias: Bias | None, multipliers: Sequence[Multiplier]) -> Multiply:
        """Return the function that scales accumulators; InternalError for factors out of range."""
        if not int16.is_wide(bias):
            return self.multiply
        int16.check_wide(multipliers, bias)
        return int16.multiply_wide

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX over each row, by tables of exponentials and reciprocals."""
        checks.check_softmax(params, self.elements)
        multiplier = int16.softmax_multiplier(params)
        exponentials, reciprocals = int16.exponentials(), int16.reciprocals()
        batches, classes = params.input_shape

        def invoke() -> None:
            for start in range(0, batches * classes, classes):
                row = params.input[start : start + classes].tolist()
                outputs = int16.softmax_row(row, multiplier, exponentials, reciprocals, self.rounding)
                for at, value in enumerate(outputs, start):
                    params.output[at] = value

        return invoke


def _output(value: int, bounds: Bounds) -> int:
    """Clamp what was scaled and moved by a zero point, which may wrap."""
    return _clamp(arithmetic.wrapped(value), bounds)


def _clamp(value: int, bounds: Bounds) -> int:
    return max(bounds.low, min(bounds.high, value))


def _mean(values: list[int]) -> int:
    # Half of the count away from zero, then truncated; `//` floors, so negative sums are turned around.
    total, count = sum(values), len(values)
    return (total + count // 2) // count if total > 0 else -((count // 2 - total) // count)


def _indices(shape: Shape4) -> Iterator[tuple[int, int, int, int]]:
    batches, rows, columns, channels = map(range, shape)
    return ((b, y, x, c) for b in batches for y in rows for x in columns for c in channels)


def _offset(shape: Shape4, i: int, j: int, k: int, n: int) -> int:
    return ((i * shape[1] + j) * shape[2] + k) * shape[3] + n


def _taps(window: Window, at: int, stride: int, dilation: int, inputs: int) -> list[tuple[int, int]]:
    """Places of a window's taps in the input, each with its number."""
    first = at * stride - window.before
    places = ((first + tap * dilation, tap) for tap in range((window.extent - 1) // dilation + 1))
    return [(place, tap) for place, tap in places if 0 <= place < inputs]


def _conv_taps(
    params: Conv2dParams | DepthwiseConv2dParams, spans: tuple[Window, Window], row: int, column: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The taps of one window: (y, x) in the input, (row, column) in the weights."""
    down, across = spans
    _, height, width, _ = params.input_shape
    for y, tap_row in _taps(down, row, params.stride_h, params.dilation_h_factor, height):
        for x, tap_column in _taps(across, column, params.stride_w, params.dilation_w_factor, width):
            yield (y, x), (tap_row, tap_column)


def _pool_values(params: PoolParams) -> Iterator[list[int]]:
    """Values in each output's window, in the order of the outputs."""
    down, across = windows.pool_windows(params)
    _, height, width, _ = params.input_shape
    for batch, row, column, channel in _indices(params.output_shape):
        yield [
            params.input[_offset(params.input_shape, batch, y, x, channel)]
            for y, _ in _taps(down, row, params.stride_h, 1, height)
            for x, _ in _taps(across, column, params.stride_w, 1, width)
        ]
