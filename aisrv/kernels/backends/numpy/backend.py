"""The fast backend: NumPy's array operations and BLAS, bit for bit what TensorFlow Lite Micro computes.

Kernels are closures over arrays and views that are made once, when they are prepared. The kernels of one
backend share scratch arrays, so two of them must not run at the same time. Source: "The INT8 kernel engine",
section Fast and exact in NumPy.
"""

from typing import Final

from aisrv.kernels import checks
from aisrv.kernels.arithmetic import Rounding
from aisrv.kernels.backend import Kernel, ScratchFree
from aisrv.kernels.backends.numpy import conv as numpy_conv
from aisrv.kernels.backends.numpy import elementwise as numpy_elementwise
from aisrv.kernels.backends.numpy import pool as numpy_pool
from aisrv.kernels.backends.numpy import softmax as numpy_softmax
from aisrv.kernels.backends.numpy.int16 import NumpyInt16
from aisrv.kernels.backends.numpy.requantize import Workspace
from aisrv.kernels.params import (
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
)


class NumpyBackend(ScratchFree):
    """Kernels of NumPy operations, with one policy of rounding."""

    def __init__(self, rounding: Rounding = Rounding.DOUBLE, workspace: Workspace | None = None) -> None:
        self.rounding: Final = rounding
        self.workspace: Final = Workspace() if workspace is None else workspace

    @property
    def int16(self) -> NumpyInt16:
        """The kernels of int16 activations."""
        return NumpyInt16(self.rounding, self.workspace)

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""
        checks.check_conv2d(params)
        return numpy_conv.conv2d(params, self.rounding, self.workspace)

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""
        checks.check_depthwise_conv2d(params)
        return numpy_conv.depthwise_conv2d(params, self.rounding, self.workspace)

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""
        checks.check_fully_connected(params)
        return numpy_conv.fully_connected(params, self.rounding, self.workspace)

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""
        checks.check_pool(params)
        return numpy_pool.avg_pool(params, self.workspace)

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""
        checks.check_pool(params)
        return numpy_pool.max_pool(params, self.workspace)

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""
        checks.check_softmax(params)
        return numpy_softmax.softmax_rows(params, self.rounding)

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""
        checks.check_add(params)
        return numpy_elementwise.add(params, self.rounding, self.workspace)

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""
        checks.check_mul(params)
        return numpy_elementwise.mul(params, self.rounding, self.workspace)
