"""A backend made of two: the first prepares what it can, the second all the rest.

So a backend of one operator is enough to run whole models:

    class Doubling:
        def add(self, params: ElementwiseAddParams) -> Kernel:
            ...

    backend = Fallback(Doubling(), find_backend("numpy"))

The first lacks an operator where it has no method of that name, where it merely inherits the interface's, and
for those parameters for which its method raises NotImplementedError. Any other error is the answer.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aisrv.kernels.backend import (
    CopyingBackend,
    Int16Kernels,
    Kernel,
    KernelBackend,
    int16_kernels,
)
from aisrv.kernels.params import (
    Buffer,
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    MulParams,
    PadParams,
    PoolParams,
    Shape4,
    SoftmaxParams,
)
from aisrv.kernels.recurrent import LstmParams, RecurrentBackend, SvdfParams


class Fallback:
    """The kernels of `first` where it has them, else those of `second`; either may be a Fallback too.

    Shapes are `input_shape`, `weights_shape` and `output_shape`, as the parameters have them; `num_classes`
    is the length of a row of SOFTMAX.
    """

    def __init__(self, first: object, second: KernelBackend | Int16Kernels) -> None:
        self.first = first
        self.second = second

    @property
    def int16(self) -> Int16Kernels | None:
        """The kernels of int16 activations that either has; None where neither has any."""
        first, second = int16_kernels(self.first), int16_kernels(self.second)
        return second if first is None else first if second is None else Fallback(first, second)

    def conv2d(self, params: Conv2dParams) -> Kernel:
        """Prepare CONV_2D."""
        return self._prepare("conv2d", params)

    def depthwise_conv2d(self, params: DepthwiseConv2dParams) -> Kernel:
        """Prepare DEPTHWISE_CONV_2D."""
        return self._prepare("depthwise_conv2d", params)

    def fully_connected(self, params: FullyConnectedParams) -> Kernel:
        """Prepare FULLY_CONNECTED."""
        return self._prepare("fully_connected", params)

    def avg_pool(self, params: PoolParams) -> Kernel:
        """Prepare AVERAGE_POOL_2D."""
        return self._prepare("avg_pool", params)

    def max_pool(self, params: PoolParams) -> Kernel:
        """Prepare MAX_POOL_2D."""
        return self._prepare("max_pool", params)

    def softmax(self, params: SoftmaxParams) -> Kernel:
        """Prepare SOFTMAX."""
        return self._prepare("softmax", params)

    def add(self, params: ElementwiseAddParams) -> Kernel:
        """Prepare ADD."""
        return self._prepare("add", params)

    def mul(self, params: MulParams) -> Kernel:
        """Prepare MUL."""
        return self._prepare("mul", params)

    def copy(self, source: Buffer, output: Buffer) -> Kernel:
        """Prepare a copy of all bytes of `source` to `output`, on whichever backend copies tensors."""
        for backend in (self.first, self.second):
            if isinstance(backend, CopyingBackend):
                return backend.copy(source, output)

        def kernel() -> None:
            output[:] = source

        return kernel

    def pad(self, params: PadParams) -> Kernel:
        """Prepare a copy with borders, on whichever of the two backends copies tensors."""
        return self._prepare_more(CopyingBackend, "pad", params)

    def lstm(self, params: LstmParams) -> Kernel:
        """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM on whichever of the two has recurrent operators."""
        return self._prepare_more(RecurrentBackend, "lstm", params)

    def svdf(self, params: SvdfParams) -> Kernel:
        """Prepare SVDF on whichever of the two has recurrent operators."""
        return self._prepare_more(RecurrentBackend, "svdf", params)

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        """Bytes of scratch that is enough for whichever prepares CONV_2D."""
        return self._scratch_size("conv2d", input_shape, weights_shape, output_shape)

    def depthwise_conv2d_scratch_size(
        self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4
    ) -> int:
        """Bytes of scratch that is enough for whichever prepares DEPTHWISE_CONV_2D."""
        return self._scratch_size("depthwise_conv2d", input_shape, weights_shape, output_shape)

    def softmax_scratch_size(self, num_classes: int) -> int:
        """Bytes of scratch that is enough for whichever prepares SOFTMAX."""
        return self._scratch_size("softmax", num_classes)

    def _prepare(self, name: str, params: Any) -> Kernel:  # noqa: ANN401 (each method has its own params)
        method = own_method(self.first, name)
        if method is not None:
            try:
                kernel: Kernel = method(params)
            except NotImplementedError:
                pass
            else:
                return kernel
        fallen_back: Kernel = getattr(self.second, name)(params)
        return fallen_back

    def _prepare_more(
        self, interface: type, name: str, params: PadParams | LstmParams | SvdfParams
    ) -> Kernel:
        """Prepare what not every backend has; NotImplementedError where neither takes it."""
        for backend in (self.first, self.second):
            if isinstance(backend, interface):
                with suppress(NotImplementedError):
                    kernel: Kernel = getattr(backend, name)(params)
                    return kernel
        raise NotImplementedError(f"{name}: neither backend takes it")

    def _scratch_size(self, name: str, *shapes: Shape4 | int) -> int:
        size = int(getattr(self.second, f"{name}_scratch_size")(*shapes))
        query = own_method(self.first, f"{name}_scratch_size")
        if query is None or own_method(self.first, name) is None:
            return size
        # Only with its parameters does the first tell whether it takes an operator, so both must have room.
        try:
            return max(size, int(query(*shapes)))
        except NotImplementedError:
            return size


def own_method(backend: object, name: str) -> Callable[..., Any] | None:
    """A backend's method; None where there is none, or only what the interface itself defines.

    `name` is that of the method.
    """
    if getattr(type(backend), name, None) is getattr(KernelBackend, name):
        return None
    method: Callable[..., Any] | None = getattr(backend, name, None)
    return method
