"""The backend `native`: kernels of a C library, bit for bit what TensorFlow Lite Micro computes.

What the library lacks, or could not compute exactly, raises NotImplementedError when it is prepared, and the
NumPy backend takes it: `native_backend` joins the two. Neighboring kernels of the library run in one call.
Source: "Speed of the INT8 kernels".
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Final

from aisrv.addons.kernels.backend import Float32Table, Kernel, TableBackend
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native import (
    convolution,
    elementwise,
    float32,
    float32_elementwise,
    int16_elementwise,
    recurrent,
)
from aisrv.addons.kernels.backends.native.float32 import FLOAT32_TARGETS
from aisrv.addons.kernels.backends.native.formats import INT8_TARGETS, INT16_TARGETS, Target
from aisrv.addons.kernels.backends.native.library import NativeError, Variant, load
from aisrv.addons.kernels.backends.native.steps import NativeKernel, Step
from aisrv.addons.kernels.backends.native.team import Team
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.params import INT8, INT16, Buffer, PadParams
from aisrv.addons.kernels.recurrent import LstmParams, SvdfParams


class NativeBackend(TableBackend):
    """Kernels of the library, of one variant, on a number of threads; NativeError where it cannot serve."""

    def __init__(self, variant: Variant | None = None, threads: int = 1) -> None:
        """Take the fastest variant that the processor has, unless one is named."""
        library = load()
        if variant is not None and variant not in library.variants:
            raise NativeError(f"this processor has no {variant.value}")
        self.variant: Final = variant or library.variants[-1]
        self._team: Final = Team(library, self.variant, threads)
        steps: dict[str, Callable[..., Step]] = self._layers(convolution, INT8_TARGETS) | {
            "avg_pool": partial(elementwise.average_pool, elements=INT8),
            "max_pool": partial(elementwise.max_pool, elements=INT8),
            "softmax": elementwise.softmax_rows,
            "add": partial(elementwise.add, variant=self.variant, library=library),
            "mul": elementwise.mul,
        }
        super().__init__({name: partial(self._kernel, function) for name, function in steps.items()})
        steps = self._layers(convolution, INT16_TARGETS) | {
            "avg_pool": partial(elementwise.average_pool, elements=INT16),
            "max_pool": partial(elementwise.max_pool, elements=INT16),
            "softmax": int16_elementwise.softmax,
            "add": partial(int16_elementwise.add, variant=self.variant),
            "mul": int16_elementwise.mul,
        }
        table = {name: partial(self._kernel, function) for name, function in steps.items()}
        self.int16: Final = TableBackend(table, INT16)
        steps = self._layers(float32, FLOAT32_TARGETS) | {
            "avg_pool": float32_elementwise.average_pool,
            "max_pool": float32_elementwise.max_pool,
            "softmax": float32_elementwise.softmax,
            "add": float32_elementwise.add,
            "mul": float32_elementwise.mul,
            "sub": float32_elementwise.sub,
            "mean": float32_elementwise.mean,
            "logistic": float32_elementwise.logistic,
            "tanh": float32_elementwise.tanh,
        }
        table = {name: partial(self._kernel, function) for name, function in steps.items()}
        self.float32: Final = Float32Table(table)

    def copy(self, source: Buffer, output: Buffer) -> Kernel:
        """Prepare a copy of as many bytes."""
        return self._kernel(elementwise.copy, source, output)

    def pad(self, params: PadParams) -> Kernel:
        """Prepare PAD of the height and the width."""
        return self._kernel(elementwise.pad, params)

    def lstm(self, params: LstmParams) -> Kernel:
        """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM."""
        return self._kernel(recurrent.lstm, params)

    def svdf(self, params: SvdfParams) -> Kernel:
        """Prepare SVDF."""
        return self._kernel(recurrent.svdf, params)

    def _layers(
        self, layers: ModuleType, targets: Mapping[Variant, Target]
    ) -> dict[str, Callable[..., Step]]:
        """The layers that a module prepares, for this variant."""
        target = targets.get(self.variant)
        if target is not None:
            target = replace(target, threads=self._team.threads)
        functions = layers.conv2d, layers.depthwise_conv2d, layers.fully_connected
        return {
            function.__name__: _of_numpy if target is None else partial(function, target=target)
            for function in functions
        }

    def _kernel(self, function: Callable[..., Step], *arguments: object) -> Kernel:
        return NativeKernel(self._team, (function(*arguments),))


def _of_numpy(params: object) -> Step:
    raise NotImplementedError(f"{type(params).__name__} on this variant")


def native_backend(threads: int = 1) -> Fallback:
    """Create the native backend on so many threads, with NumPy for the rest."""
    return Fallback(NativeBackend(threads=threads), NumpyBackend())
