"""The NumPy backend with its innermost loops compiled, where Numba is installed and where that wins.

Products of matrices stay with BLAS. What follows them, depthwise windows of many channels, SOFTMAX, ADD and
MUL are one compiled pass each. The first kernels of a new installation wait for the compiler, a few seconds.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic, checks, softmax
from aisrv.kernels.arithmetic import Rounding
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends import numba_loops
from aisrv.kernels.backends.numpy import conv as numpy_conv
from aisrv.kernels.backends.numpy import elementwise as numpy_elementwise
from aisrv.kernels.backends.numpy.backend import NumpyBackend
from aisrv.kernels.backends.numpy.requantize import Workspace, requantize
from aisrv.kernels.backends.numpy.steps import Array, Line, Rescaling, Steps, Wrapping
from aisrv.kernels.backends.numpy.windows import padded_input
from aisrv.kernels.params import DepthwiseConv2dParams, ElementwiseAddParams, MulParams, SoftmaxParams
from aisrv.kernels.windows import conv_spans, overlapping_taps

FEWEST_CHANNELS: Final = 16
"""Depthwise windows of fewer channels are faster in NumPy, which takes a whole row of windows at a time."""


class CompiledWorkspace(Workspace):
    """Requantizes in one compiled pass."""

    def requantize(self, accumulators: Array, output: npt.NDArray[np.int8], how: Rescaling) -> Kernel:
        """Prepare the conversion of accumulators to the output."""
        if isinstance(how, Steps | Wrapping):
            return requantize(accumulators, output, how, self)
        line = how if isinstance(how, Line) else how.line
        channels = len(line.slope)
        values = accumulators[: len(output)].reshape(-1, channels)
        target = output.view(np.uint8).reshape(-1, channels)
        low, high, slope, offset = line.low, line.high, line.slope, line.offset
        if isinstance(how, Line):
            one = numba_loops.prepared(numba_loops.one_line, values, low, high, slope, offset, target)

            def invoke_one() -> None:
                one(values, low, high, slope, offset, target)

            return invoke_one
        shift, zero = how.shift, how.zero
        two = numba_loops.prepared(
            numba_loops.two_lines, values, low, high, slope, offset, shift, zero, target
        )

        def invoke_two() -> None:
            two(values, low, high, slope, offset, shift, zero, target)

        return invoke_two


class NumbaBackend(NumpyBackend):
    """Kernels of compiled loops and BLAS, with one policy of rounding."""

    def __init__(self, rounding: Rounding = Rounding.DOUBLE) -> None:
        super().__init__(rounding, CompiledWorkspace())

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""
        checks.check_depthwise_conv2d(params)
        spans = conv_spans(params)
        whole = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[0]
        weights = overlapping_taps(whole, spans)
        if weights.shape[2] < FEWEST_CHANNELS or params.input_shape[3] == 1 or not weights.size:
            return super().depthwise_conv2d(params)
        sums = numpy_conv.depthwise_accumulation(params, weights, self.rounding, self.workspace)
        source = np.frombuffer(params.input, np.int8).reshape(params.input_shape)
        border, copies = params.input_quant.zero_point, params.depth_multiplier
        image, load = padded_input(source, spans, border, sums.dtype, copies)
        image = image[:, spans[0].skip :, spans[1].skip :]
        taps = weights.astype(sums.dtype)
        result, finish = sums.rows.reshape(params.output_shape), sums.finish
        down, across = params.stride_h, params.stride_w
        apart_h, apart_w = spans[0].dilation, spans[1].dilation
        depthwise = numba_loops.prepared(
            numba_loops.depthwise, image, taps, down, across, apart_h, apart_w, result
        )

        def invoke() -> None:
            load()
            depthwise(image, taps, down, across, apart_h, apart_w, result)
            finish()

        return invoke

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""
        checks.check_softmax(params)
        table = softmax.exponential_table(params.beta, params.input_quant.scale, self.rounding)
        exponentials = np.array(table, np.int64)
        rounded = np.array([arithmetic.rounding_shift(each, 12) for each in table], np.int64)
        values = np.frombuffer(params.input, np.int8).reshape(params.input_shape)
        output = np.frombuffer(params.output, np.int8).reshape(params.input_shape)
        rows = numba_loops.prepared(numba_loops.softmax, values, exponentials, rounded, output)

        def invoke() -> None:
            rows(values, exponentials, rounded, output)

        return invoke

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""
        checks.check_add(params)
        return _pairs(params, numpy_elementwise.sums_table(params, self.rounding))

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""
        checks.check_mul(params)
        return _pairs(params, numpy_elementwise.products_table(params, self.rounding))


def _pairs(params: ElementwiseAddParams | MulParams, table: npt.NDArray[np.int8]) -> Kernel:
    first, second = np.frombuffer(params.input1, np.uint8), np.frombuffer(params.input2, np.uint8)
    output = np.frombuffer(params.output, np.int8)
    look_up = numba_loops.prepared(numba_loops.pairs, first, second, table, output)

    def invoke() -> None:
        look_up(first, second, table, output)

    return invoke
