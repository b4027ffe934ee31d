"""The shipped kernel backends by name, for tests that hold of each of them."""

from typing import Final

import pytest

from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.backends.registry import SHIPPED, BackendError, find_backend

NAMES: Final = tuple(SHIPPED)


def shipped_backend(name: str) -> KernelBackend:
    """Create a backend; the test that asks is skipped where what it needs is not installed."""
    try:
        return find_backend(name)
    except BackendError as error:
        pytest.skip(str(error))


LARGE: Final = ("kws_ref_model", "pretrainedResnet_quant", "vww_96_int8", "person_detect")
"""Models that take plain loops a second and more: the long checks (`tests.soak`) run those."""


def affordable(model: str) -> tuple[str, ...]:
    """The backends that run a model in a moment."""
    return tuple(name for name in NAMES if name != "reference" or model not in LARGE)
