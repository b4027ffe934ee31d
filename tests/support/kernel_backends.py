"""The shipped kernel backends by name, for tests that hold of each of them."""

from typing import Final

import pytest

from aisrv.kernels.backend import KernelBackend
from aisrv.kernels.backends.names import SHIPPED
from aisrv.kernels.backends.registry import BackendError, find_backend

NAMES: Final = tuple(SHIPPED)


def shipped_backend(name: str) -> KernelBackend:
    """Create a backend; the test that asks is skipped where what it needs is not installed."""
    try:
        return find_backend(name)
    except BackendError as error:
        pytest.skip(str(error))
