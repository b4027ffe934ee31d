"""The plain backend: NumPy's array operations, bit for bit what TensorFlow Lite Micro computes.

Sums of products are exact floats, which BLAS multiplies; all that follows is in 64-bit integers, as the
arithmetic is written down. Source: "The INT8 kernel engine", section Arithmetic.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aisrv.addons.kernels.arithmetic import Rounding
from aisrv.addons.kernels.backend import Kernel, TableBackend
from aisrv.addons.kernels.backends.numpy.convolution import conv2d, depthwise_conv2d, fully_connected
from aisrv.addons.kernels.backends.numpy.elementwise import add, mul
from aisrv.addons.kernels.backends.numpy.pool import avg_pool, max_pool
from aisrv.addons.kernels.backends.numpy.softmax import softmax
from aisrv.addons.kernels.backends.numpy.words import Numbers
from aisrv.addons.kernels.params import INT16

Function: TypeAlias = Callable[[Any, Numbers], Kernel]
"""Prepares a kernel from checked parameters."""

FUNCTIONS: Final[Mapping[str, Function]] = {
    "conv2d": conv2d,
    "depthwise_conv2d": depthwise_conv2d,
    "fully_connected": fully_connected,
    "avg_pool": avg_pool,
    "max_pool": max_pool,
    "softmax": softmax,
    "add": add,
    "mul": mul,
}


class NumpyKernels(TableBackend):
    """Kernels that compute with some numbers, by functions of NumPy."""

    def __init__(self, numbers: Numbers) -> None:
        def prepare(function: Function) -> Callable[[Any], Kernel]:
            return lambda params: function(params, numbers)

        super().__init__({name: prepare(each) for name, each in FUNCTIONS.items()}, numbers.elements)


class NumpyBackend(NumpyKernels):
    """Kernels of NumPy operations, with one policy of rounding."""

    def __init__(self, rounding: Rounding = Rounding.DOUBLE) -> None:
        super().__init__(Numbers(rounding=rounding))
        self.int16: Final = NumpyKernels(Numbers(INT16, rounding))
