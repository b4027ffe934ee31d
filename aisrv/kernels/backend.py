"""The interface of a backend: one method an operator prepares a kernel, which is then invoked.

A method checks its parameters and makes tables, multipliers and layouts once. What it returns touches data
only: it reads the input buffers and fills the output buffer, each time it is called. Source: "The INT8 kernel
engine", section KernelBackend.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from aisrv.kernels.params import (
    Buffer,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PadParams,
    PoolParams,
    ScaleProduct,
    Shape4,
    SoftmaxParams,
)

Kernel: TypeAlias = Callable[[], None]
"""A prepared kernel; calling it is the invoke phase."""


@runtime_checkable
class JoinableKernel(Protocol):
    """A kernel that can run in one call with the one after it."""

    def __call__(self) -> None:
        """Run it alone."""

    def followed_by(self, kernel: Kernel, /) -> Kernel | None:
        """Return one kernel that runs this one, then the other; None where these two cannot be joined."""


def kernel_origin(kernel: Kernel) -> str:
    """Name who computes a kernel: `native`, `numpy`, `graph`, or else the module that it is from."""
    module = str(getattr(kernel, "__module__", ""))
    package, _, rest = module.removeprefix("aisrv.kernels.").partition(".")
    name = rest.partition(".")[0].removesuffix("_backend") if package == "backends" else package
    return name if module.startswith("aisrv.kernels.") else module


def join_kernels(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """Join neighbors that can run in one call.

    `kernels` are those of a graph in execution order.
    """
    joined: list[Kernel] = []
    for kernel in kernels:
        last = joined[-1] if joined else None
        both = last.followed_by(kernel) if isinstance(last, JoinableKernel) else None
        if both is None:
            joined.append(kernel)
        else:
            joined[-1] = both
    return tuple(joined)


class KernelBackend(Protocol):
    """Prepares kernels. Every method raises a KernelError for parameters that it cannot take.

    Shapes are `input_shape`, `weights_shape` and `output_shape`, as the parameters have them; `num_classes`
    is the length of a row of SOFTMAX.
    """

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        """Bytes of scratch that `conv2d` wants for these shapes; 0 for none."""

    def depthwise_conv2d_scratch_size(
        self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4
    ) -> int:
        """Bytes of scratch that `depthwise_conv2d` wants for these shapes; 0 for none."""

    def softmax_scratch_size(self, num_classes: int) -> int:
        """Bytes of scratch that `softmax` wants for so many classes; 0 for none."""


class Int16Kernels(Protocol):
    """Prepares kernels of int16 activations with int8 weights.

    A backend that has such kernels has them in its attribute `int16`. Activations are signed halfwords with
    zero points of 0; see `aisrv.kernels.params`.
    """

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""


def int16_kernels(backend: object) -> Int16Kernels | None:
    """Return the kernels of int16 activations that a backend has, None where it has none."""
    kernels: Int16Kernels | None = getattr(backend, "int16", None)
    return kernels


def scale_product(backend: object) -> ScaleProduct:
    """Tell how scales are multiplied for a backend: as its attribute `scale_product` says, or in double."""
    product: ScaleProduct = getattr(backend, "scale_product", ScaleProduct.DOUBLE)
    return product


@runtime_checkable
class CopyingBackend(Protocol):
    """A backend that copies tensors, too, which the graph does otherwise."""

    def copy(self, source: Buffer, output: Buffer) -> Kernel:
        """Prepare a copy of all bytes of `source` to `output`; they have one length and share no memory."""

    def pad(self, params: PadParams) -> Kernel:
        """Prepare a copy with borders; NotImplementedError leaves it to the graph."""


@runtime_checkable
class GroupingBackend(Protocol):
    """A backend that convolves groups of channels at once; for others the graph makes one of each group."""

    def grouped_conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D of an input with a multiple of the weights' channels; the graph has checked it."""


class ScratchFree:
    """The scratch queries of a backend that needs no scratch: 0 bytes for every operator.

    Shapes are `input_shape`, `weights_shape` and `output_shape`, as the parameters have them; `num_classes`
    is the length of a row of SOFTMAX.
    """

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:  # noqa: ARG002 (the interface's)
        """Return 0."""
        return 0

    def depthwise_conv2d_scratch_size(
        self,
        input_shape: Shape4,  # noqa: ARG002 (the interface's)
        weights_shape: Shape4,  # noqa: ARG002
        output_shape: Shape4,  # noqa: ARG002
    ) -> int:
        """Return 0."""
        return 0

    def softmax_scratch_size(self, num_classes: int) -> int:  # noqa: ARG002 (the interface's)
        """Return 0."""
        return 0
