"""The names of the shipped backends, for those who start no kernel."""

from typing import Final

SHIPPED: Final = {
    "reference": "aisrv.kernels.backends.reference:ReferenceBackend",
    "numpy": "aisrv.kernels.backends.numpy.backend:NumpyBackend",
    "native": "aisrv.kernels.backends.native.backend:native_backend",
    "numba": "aisrv.kernels.backends.numba_backend:NumbaBackend",
    "relocatable": "aisrv.relocatable.backend:relocatable_backend",
}
"""Where the shipped backends are; no package can take one of these names."""

ASSUME_ALIGNED: Final = "+assume-aligned"
"""Behind the name of any backend: it refuses buffers that do not start at a multiple of 16 bytes."""


def plain_name(name: str) -> str:
    """The name of a backend without what it assumes."""
    return name.removesuffix(ASSUME_ALIGNED)
