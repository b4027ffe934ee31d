"""A backend for which scales are multiplied in float32, as earlier versions of TensorFlow Lite Micro do.

The multipliers of FULLY_CONNECTED, BATCH_MATMUL, SVDF and LSTM then differ in their last bits from those of
today, and now and then an output by 1. The graph asks the backend, and makes the multipliers.
"""

from typing import Final

from aisrv.kernels.backend import KernelBackend
from aisrv.kernels.backends.fallback import Fallback
from aisrv.kernels.params import ScaleProduct


class Float32Scales(Fallback):
    """The kernels of another backend, and this policy."""

    scale_product: Final = ScaleProduct.FLOAT32

    def __init__(self, backend: KernelBackend) -> None:
        super().__init__(backend, backend)
