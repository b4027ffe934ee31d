"""A backend that assumes alignment: the kernels of another one, for buffers at multiples of 16 bytes.

Kernels of some devices need that. A backend without this assumption takes buffers wherever they are, as all
shipped ones do. Buffers stay where they are, so what they are prepared with is all there is to check.
"""

from typing import Final

from aisrv.addons.kernels.backend import BackendMethods, Kernel, Kernels, float32_kernels, int16_kernels
from aisrv.addons.kernels.checks import Params, check_alignment
from aisrv.addons.kernels.params import Shape4


class AssumeAlignedKernels(BackendMethods):
    """Kernels of one element type; each method raises AlignmentError for a buffer that is not aligned."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels: Final = kernels

    def prepare(self, operator: str, params: Params) -> Kernel:
        """Check where the buffers are, and leave the rest to the other backend."""
        check_alignment(params)
        kernel: Kernel = getattr(self._kernels, operator)(params)
        return kernel


class AssumeAligned(AssumeAlignedKernels):
    """A whole backend that assumes alignment."""

    @property
    def int16(self) -> AssumeAlignedKernels:
        """The kernels of int16 activations: the backend's, or NumPy's where it has none."""
        from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend

        return AssumeAlignedKernels(int16_kernels(self._kernels) or NumpyBackend().int16)

    @property
    def float32(self) -> AssumeAlignedKernels | None:
        """The kernels of float32, None where the backend has none."""
        kernels = float32_kernels(self._kernels)
        return None if kernels is None else AssumeAlignedKernels(kernels)

    def scratch_size(self, query: str, *shapes: Shape4 | int) -> int:
        """Bytes of scratch that the backend wants."""
        return int(getattr(self._kernels, query)(*shapes))
