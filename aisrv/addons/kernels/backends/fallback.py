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
from typing import Any, Final

from aisrv.addons.kernels.backend import (
    ArithmeticKernels,
    BackendMethods,
    CopyingBackend,
    Kernel,
    KernelBackend,
    Kernels,
    float32_kernels,
    int16_kernels,
)
from aisrv.addons.kernels.checks import Params
from aisrv.addons.kernels.params import (
    Buffer,
    FunctionParams,
    MeanParams,
    PadParams,
    ScaleProduct,
    Shape4,
    SubParams,
)
from aisrv.addons.kernels.recurrent import LstmParams, RecurrentBackend, SvdfParams


class Fallback(BackendMethods):
    """The kernels of `first` where it has them, else those of `second`; either may be a Fallback too."""

    def __init__(self, first: object, second: Kernels) -> None:
        self.first: Final = first
        self.second: Final = second

    @property
    def int16(self) -> Kernels | None:
        """The kernels of int16 activations that either has; None where neither has any."""
        first, second = int16_kernels(self.first), int16_kernels(self.second)
        return second if first is None else first if second is None else Fallback(first, second)

    @property
    def float32(self) -> Kernels | None:
        """The kernels of float32 that either has; None where neither has any."""
        first, second = float32_kernels(self.first), float32_kernels(self.second)
        return second if first is None else first if second is None else Fallback(first, second)

    def prepare(self, operator: str, params: Params) -> Kernel:
        """Prepare one of OPERATORS on the first, where it takes these parameters, or on the second."""
        if method := own_method(self.first, operator):
            with suppress(NotImplementedError):
                kernel: Kernel = method(params)
                return kernel
        fallen_back: Kernel = getattr(self.second, operator)(params)
        return fallen_back

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

    def sub(self, params: SubParams) -> Kernel:
        """Prepare SUB of float32 on whichever of the two has it."""
        return self._prepare_more(ArithmeticKernels, "sub", params)

    def mean(self, params: MeanParams) -> Kernel:
        """Prepare MEAN of float32 on whichever of the two has it."""
        return self._prepare_more(ArithmeticKernels, "mean", params)

    def logistic(self, params: FunctionParams) -> Kernel:
        """Prepare LOGISTIC of float32 on whichever of the two has it."""
        return self._prepare_more(ArithmeticKernels, "logistic", params)

    def tanh(self, params: FunctionParams) -> Kernel:
        """Prepare TANH of float32 on whichever of the two has it."""
        return self._prepare_more(ArithmeticKernels, "tanh", params)

    def scratch_size(self, query: str, *shapes: Shape4 | int) -> int:
        """Bytes of scratch that is enough for whichever backend prepares the operator."""
        size = int(getattr(self.second, query)(*shapes))
        method = own_method(self.first, query)
        if method is None or own_method(self.first, query.removesuffix("_scratch_size")) is None:
            return size
        # Only with its parameters does the first tell whether it takes an operator, so both must have room.
        with suppress(NotImplementedError):
            size = max(size, int(method(*shapes)))
        return size

    def _prepare_more(
        self, interface: type, name: str, params: Params | PadParams | LstmParams | SvdfParams
    ) -> Kernel:
        """Prepare what not every backend has; NotImplementedError where neither takes it."""
        for backend in (self.first, self.second):
            if isinstance(backend, interface):
                with suppress(NotImplementedError):
                    kernel: Kernel = getattr(backend, name)(params)
                    return kernel
        raise NotImplementedError(f"{name}: neither backend takes it")


class Float32Scales(Fallback):
    """The kernels of another backend, for which scales are multiplied in float32.

    Earlier versions of TensorFlow Lite Micro do so. The multipliers of FULLY_CONNECTED, BATCH_MATMUL, SVDF
    and LSTM, which the network makes, then differ in their last bits, and now and then an output by 1.
    """

    scale_product: Final = ScaleProduct.FLOAT32

    def __init__(self, backend: KernelBackend) -> None:
        super().__init__(backend, backend)


def own_method(backend: object, name: str) -> Callable[..., Any] | None:
    """Find a method of a backend; None where there is none, or only what the interface itself defines."""
    if getattr(type(backend), name, None) is getattr(KernelBackend, name):
        return None
    method: Callable[..., Any] | None = getattr(backend, name, None)
    return method
