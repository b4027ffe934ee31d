"""The interface of a backend: one method an operator prepares a kernel, which is then invoked.

A method checks its parameters and makes tables, multipliers and layouts once. What it returns touches data
only: it reads the input buffers and fills the output buffer, each time it is called. Source: "The INT8 kernel
engine", section KernelBackend.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from aisrv.addons.kernels.checks import CHECKS, Params
from aisrv.addons.kernels.params import (
    FLOAT32,
    INT8,
    Buffer,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementType,
    ElementwiseAddParams,
    FullyConnectedParams,
    FunctionParams,
    MeanParams,
    MulParams,
    PadParams,
    PoolParams,
    ScaleProduct,
    Shape4,
    SoftmaxParams,
    SubParams,
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
    """Name who computes a kernel: `native`, `numpy`, `network`, or else the module that it is from."""
    module = str(getattr(kernel, "__module__", ""))
    package, _, rest = module.removeprefix("aisrv.addons.kernels.").partition(".")
    name = rest.partition(".")[0].removesuffix("_backend") if package == "backends" else package
    return name if module.startswith("aisrv.addons.kernels.") else module


def join_kernels(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """Join neighbors that can run in one call.

    `kernels` are those of a network in execution order.
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


class Kernels(Protocol):
    """Prepares kernels of one type of activations. A method raises a KernelError for what it cannot take.

    A backend is one for int8. Where it has kernels of int16 activations with int8 weights, it has them in its
    attribute `int16`; these have zero points of 0, see `aisrv.addons.kernels.params`. Kernels of float32,
    in its attribute `float32`, raise NotImplementedError for what they leave to the network.
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


class KernelBackend(Kernels, Protocol):
    """Kernels of int8, and the bytes of scratch that they want for shapes of input, weights and output."""

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        """Bytes of scratch that `conv2d` wants; 0 for none."""

    def depthwise_conv2d_scratch_size(
        self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4
    ) -> int:
        """Bytes of scratch that `depthwise_conv2d` wants; 0 for none."""

    def softmax_scratch_size(self, num_classes: int) -> int:
        """Bytes of scratch that `softmax` wants for rows of so many classes; 0 for none."""


OPERATORS: Final = tuple(name for name in vars(Kernels) if not name.startswith("_"))
"""The names of the methods that prepare kernels."""

SCRATCH_SIZES: Final = tuple(name for name in vars(KernelBackend) if name.endswith("_scratch_size"))
"""The names of the methods that tell the size of scratch."""


def int16_kernels(backend: object) -> Kernels | None:
    """Return the kernels of int16 activations that a backend has, None where it has none."""
    kernels: Kernels | None = getattr(backend, "int16", None)
    return kernels


def float32_kernels(backend: object) -> Kernels | None:
    """Return the kernels of float32 that a backend has, None where it has none."""
    kernels: Kernels | None = getattr(backend, "float32", None)
    return kernels


def scale_product(backend: object) -> ScaleProduct:
    """Tell how scales are multiplied for a backend: as its attribute `scale_product` says, or in double."""
    product: ScaleProduct = getattr(backend, "scale_product", ScaleProduct.DOUBLE)
    return product


@runtime_checkable
class CopyingBackend(Protocol):
    """A backend that copies tensors, too, which the network does otherwise."""

    def copy(self, source: Buffer, output: Buffer) -> Kernel:
        """Prepare a copy of all bytes of `source` to `output`; they have one length and share no memory."""

    def pad(self, params: PadParams) -> Kernel:
        """Prepare a copy with borders; NotImplementedError leaves it to the network."""


@runtime_checkable
class ArithmeticKernels(Protocol):
    """Kernels of float32 with more operators; NotImplementedError leaves one to the network."""

    def sub(self, params: SubParams) -> Kernel:
        """Prepare SUB."""

    def mean(self, params: MeanParams) -> Kernel:
        """Prepare MEAN."""

    def logistic(self, params: FunctionParams) -> Kernel:
        """Prepare LOGISTIC."""

    def tanh(self, params: FunctionParams) -> Kernel:
        """Prepare TANH."""


@runtime_checkable
class GroupingBackend(Protocol):
    """A backend that convolves groups of channels at once; for others the network makes one of each group."""

    def grouped_conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D, its input checked: it has a multiple of the weights' channels."""


class ScratchFree:
    """A backend that needs no scratch, unless it overrides `scratch_size`."""

    def scratch_size(self, query: str, *shapes: Shape4 | int) -> int:  # noqa: ARG002 (of who overrides it)
        """Answer one of SCRATCH_SIZES, in bytes."""
        return 0

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        """Bytes of scratch for CONV_2D."""
        return self.scratch_size("conv2d_scratch_size", input_shape, weights_shape, output_shape)

    def depthwise_conv2d_scratch_size(
        self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4
    ) -> int:
        """Bytes of scratch for DEPTHWISE_CONV_2D."""
        return self.scratch_size("depthwise_conv2d_scratch_size", input_shape, weights_shape, output_shape)

    def softmax_scratch_size(self, num_classes: int) -> int:
        """Bytes of scratch for SOFTMAX over rows of so many classes."""
        return self.scratch_size("softmax_scratch_size", num_classes)


class BackendMethods(ScratchFree, ABC):
    """The methods of the interface, all of which call `prepare`."""

    @abstractmethod
    def prepare(self, operator: str, params: Params) -> Kernel:
        """Prepare one of OPERATORS; KernelError for parameters that no kernel can compute."""

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""
        return self.prepare("conv2d", params)

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""
        return self.prepare("depthwise_conv2d", params)

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""
        return self.prepare("fully_connected", params)

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""
        return self.prepare("avg_pool", params)

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""
        return self.prepare("max_pool", params)

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""
        return self.prepare("softmax", params)

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""
        return self.prepare("add", params)

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""
        return self.prepare("mul", params)


class TableBackend(BackendMethods):
    """A backend that is a table: from the name of each method to the function that prepares its kernel."""

    def __init__(self, table: Mapping[str, Callable[[Any], Kernel]], elements: ElementType = INT8) -> None:
        """Take a function of parameters, which are checked before, for each of OPERATORS."""
        self._table: Final = table
        self._elements: Final = elements

    def prepare(self, operator: str, params: Params) -> Kernel:
        """Check parameters, and prepare a kernel."""
        CHECKS[operator](params, self._elements)
        return self._table[operator](params)


class Float32Table(TableBackend):
    """A table of kernels of float32, those of ArithmeticKernels among them."""

    def __init__(self, table: Mapping[str, Callable[[Any], Kernel]]) -> None:
        """Take a function of parameters, which are checked before, for each of these operators, too."""
        super().__init__(table, FLOAT32)

    def sub(self, params: SubParams) -> Kernel:
        """Prepare SUB."""
        return self.prepare("sub", params)

    def mean(self, params: MeanParams) -> Kernel:
        """Prepare MEAN."""
        return self.prepare("mean", params)

    def logistic(self, params: FunctionParams) -> Kernel:
        """Prepare LOGISTIC."""
        return self.prepare("logistic", params)

    def tanh(self, params: FunctionParams) -> Kernel:
        """Prepare TANH."""
        return self.prepare("tanh", params)
