"""The backend `native`: kernels of a C library, bit for bit what TensorFlow Lite Micro computes.

What the library lacks, or could not compute exactly, raises NotImplementedError when it is prepared, and the
NumPy backend takes it: `native_backend` joins the two. Neighboring kernels of the library run in one call.
Source: "Speed of the INT8 kernels".
"""

from typing import Final

from aisrv.kernels import checks
from aisrv.kernels.backend import Kernel, ScratchFree
from aisrv.kernels.backends.fallback import Fallback
from aisrv.kernels.backends.native import convolution, elementwise, recurrent
from aisrv.kernels.backends.native.library import NativeError, Team, Variant, load
from aisrv.kernels.backends.native.steps import NativeKernel, Step
from aisrv.kernels.backends.numpy.backend import NumpyBackend
from aisrv.kernels.params import (
    Buffer,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PadParams,
    PoolParams,
    SoftmaxParams,
)
from aisrv.kernels.recurrent import LstmParams, SvdfParams


class NativeBackend(ScratchFree):
    """Kernels of the library, of one variant, on a number of threads; NativeError where it cannot serve."""

    def __init__(self, variant: Variant | None = None, threads: int = 1) -> None:
        """Take the fastest variant that the processor has, unless one is named."""
        self._library = load()
        if variant is not None and variant not in self._library.variants:
            raise NativeError(f"this processor has no {variant.value}")
        self.variant: Final = variant or self._library.variants[-1]
        self._team = Team(self._library, threads)

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""
        checks.check_conv2d(params)
        return self._kernel(convolution.conv2d(params, self.variant))

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""
        checks.check_depthwise_conv2d(params)
        return self._kernel(convolution.depthwise_conv2d(params, self.variant))

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""
        checks.check_fully_connected(params)
        return self._kernel(convolution.fully_connected(params, self.variant))

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""
        checks.check_pool(params)
        return self._kernel(elementwise.average_pool(params, self.variant))

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""
        checks.check_pool(params)
        return self._kernel(elementwise.max_pool(params, self.variant))

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""
        checks.check_softmax(params)
        return self._kernel(elementwise.softmax_rows(params))

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""
        checks.check_add(params)
        return self._kernel(elementwise.add(params, self.variant, self._library))

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""
        checks.check_mul(params)
        return self._kernel(elementwise.mul(params))

    def copy(self, source: Buffer, output: Buffer) -> Kernel:
        """Prepare a copy of as many bytes."""
        return self._kernel(elementwise.copy(source, output))

    def pad(self, params: PadParams) -> Kernel:
        """Prepare PAD of the height and the width."""
        return self._kernel(elementwise.pad(params))

    def lstm(self, params: LstmParams) -> Kernel:
        """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM."""
        return self._kernel(recurrent.lstm(params))

    def svdf(self, params: SvdfParams) -> Kernel:
        """Prepare SVDF."""
        return self._kernel(recurrent.svdf(params))

    def _kernel(self, step: Step) -> Kernel:
        return NativeKernel(self._team, (step,))


def native_backend(threads: int = 1) -> Fallback:
    """Create the native backend on so many threads, with NumPy for the rest."""
    return Fallback(NativeBackend(threads=threads), NumpyBackend())
