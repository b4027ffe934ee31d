"""A backend that assumes alignment: the kernels of another one, for buffers at multiples of 16 bytes.

Kernels of some devices need that. A backend without this assumption takes buffers wherever they are, as all
shipped ones do. Buffers stay where they are, so what they are prepared with is all there is to check.
"""

from typing import Final, TypeVar

from aisrv.kernels.backend import Int16Kernels, Kernel, KernelBackend, int16_kernels
from aisrv.kernels.checks import Params, check_alignment
from aisrv.kernels.params import (
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PoolParams,
    Shape4,
    SoftmaxParams,
)

P = TypeVar("P", bound=Params)


class AssumeAlignedKernels:
    """Kernels of one element type; each method raises AlignmentError for a buffer that is not aligned."""

    def __init__(self, kernels: KernelBackend | Int16Kernels) -> None:
        self._kernels: Final = kernels

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""
        return self._kernels.conv2d(_aligned(params))

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""
        return self._kernels.depthwise_conv2d(_aligned(params))

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""
        return self._kernels.fully_connected(_aligned(params))

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""
        return self._kernels.avg_pool(_aligned(params))

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""
        return self._kernels.max_pool(_aligned(params))

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""
        return self._kernels.softmax(_aligned(params))

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""
        return self._kernels.add(_aligned(params))

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""
        return self._kernels.mul(_aligned(params))


class AssumeAligned(AssumeAlignedKernels):
    """A whole backend that assumes alignment."""

    def __init__(self, backend: KernelBackend) -> None:
        super().__init__(backend)
        self._backend: Final = backend

    @property
    def int16(self) -> AssumeAlignedKernels:
        """The kernels of int16 activations: the backend's, or NumPy's where it has none."""
        from aisrv.kernels.backends.numpy.backend import NumpyBackend

        return AssumeAlignedKernels(int16_kernels(self._backend) or NumpyBackend().int16)

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        """Bytes of scratch that the backend wants."""
        return self._backend.conv2d_scratch_size(input_shape, weights_shape, output_shape)

    def depthwise_conv2d_scratch_size(
        self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4
    ) -> int:
        """Bytes of scratch that the backend wants."""
        return self._backend.depthwise_conv2d_scratch_size(input_shape, weights_shape, output_shape)

    def softmax_scratch_size(self, num_classes: int) -> int:
        """Bytes of scratch that the backend wants."""
        return self._backend.softmax_scratch_size(num_classes)


def _aligned(params: P) -> P:
    check_alignment(params)
    return params
