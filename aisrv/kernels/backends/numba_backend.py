"""The NumPy backend with its innermost loops compiled, where Numba is installed and where that wins.

Products of matrices stay with BLAS. What follows them, depthwise windows of many channels, SOFTMAX, ADD and
MUL are one compiled pass each. The first kernels of a new installation wait for the compiler, a few seconds.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic
from aisrv.kernels.arithmetic import Rounding
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends import numba_loops
from aisrv.kernels.backends.numpy import convolution
from aisrv.kernels.backends.numpy.backend import FUNCTIONS, Function, NumpyKernels
from aisrv.kernels.backends.numpy.elementwise import pair_table, products, sums
from aisrv.kernels.backends.numpy.words import Finish, Numbers, Output
from aisrv.kernels.params import (
    INT16,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    MulParams,
    SoftmaxParams,
)
from aisrv.kernels.windows import conv_spans

FEWEST_CHANNELS: Final = 16
"""Depthwise windows of fewer channels are faster in NumPy, which takes a whole row of windows at a time."""


class CompiledNumbers(Numbers):
    """Writes outputs of int8 in one compiled pass."""

    def finish(self, output: memoryview, how: Output) -> Finish:
        """Prepare what writes an output."""
        if self.rounding is Rounding.SINGLE:
            return Numbers.finish(self, output, how)
        mantissa, shift = np.array(how.multipliers, np.int64).T.copy()
        target = self.array(output).reshape(-1, len(how.bias))
        constants = how.bias, mantissa, np.maximum(shift, 0), np.maximum(-shift, 0), how.zero, *how.bounds
        loops = {
            dtype: numba_loops.prepared(numba_loops.rescale, np.empty((0, 0), dtype), *constants, target)
            for dtype in (np.dtype(np.float32), np.dtype(np.float64))
        }

        def finish(values: npt.NDArray[Any], first: int = 0) -> None:
            loops[values.dtype](values, *constants, target[first : first + len(values)])

        return finish


class NumbaBackend(NumpyKernels):
    """Kernels of compiled loops and BLAS, with one policy of rounding."""

    def __init__(self, rounding: Rounding = Rounding.DOUBLE) -> None:
        super().__init__(CompiledNumbers(rounding=rounding), {**FUNCTIONS, **COMPILED})
        self.int16: Final = NumpyKernels(Numbers(INT16, rounding))


def depthwise_conv2d(params: DepthwiseConv2dParams, numbers: Numbers) -> Kernel:
    """Prepare DEPTHWISE_CONV_2D."""
    channels = params.output_shape[3]
    if channels < FEWEST_CHANNELS or params.input_shape[3] == 1:
        return convolution.depthwise_conv2d(params, numbers)
    image, load, taps, finish = convolution.depthwise_parts(params, numbers)
    down, across = conv_spans(params)
    image = image[:, down.skip :, across.skip :]
    steps = down.stride, across.stride, down.dilation, across.dilation
    result = np.empty(params.output_shape, taps.dtype)
    depthwise = numba_loops.prepared(numba_loops.depthwise, image, taps, *steps, result)

    def invoke() -> None:
        load()
        depthwise(image, taps, *steps, result)
        finish(result.reshape(-1, channels))

    return invoke


def softmax(params: SoftmaxParams, numbers: Numbers) -> Kernel:
    """Prepare SOFTMAX."""
    table = arithmetic.exponential_table(params.beta, params.input_quant.scale, numbers.rounding)
    exponentials = np.array(table, np.int64)
    rounded = np.array([arithmetic.rounding_shift(each, arithmetic.SUM_SHIFT) for each in table], np.int64)
    values = numbers.array(params.input).reshape(params.input_shape)
    output = numbers.array(params.output).reshape(params.input_shape)
    return _called(numba_loops.softmax, values, exponentials, rounded, output)


def add(params: ElementwiseAddParams, numbers: Numbers) -> Kernel:
    """Prepare ADD."""
    return _pairs(params, pair_table(sums(params, numbers)))


def mul(params: MulParams, numbers: Numbers) -> Kernel:
    """Prepare MUL."""
    return _pairs(params, pair_table(products(params, numbers)))


def _pairs(params: ElementwiseAddParams | MulParams, table: npt.NDArray[Any]) -> Kernel:
    first, second = np.frombuffer(params.input1, np.uint8), np.frombuffer(params.input2, np.uint8)
    return _called(
        numba_loops.pairs, first, second, table.astype(np.int8), np.frombuffer(params.output, np.int8)
    )


def _called(loop: numba_loops.Loop, *arguments: npt.NDArray[Any]) -> Kernel:
    prepared = numba_loops.prepared(loop, *arguments)
    return lambda: prepared(*arguments)


COMPILED: Final[dict[str, Function]] = {
    "depthwise_conv2d": depthwise_conv2d,
    "softmax": softmax,
    "add": add,
    "mul": mul,
}
"""Operators that are faster in loops of their own."""
