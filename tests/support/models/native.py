"""The native kernels for tests: skipped where no compiler was at installation, failed for that in CI."""

import platform
from typing import Final

import pytest

from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native.backend import NativeBackend
from aisrv.addons.kernels.backends.native.library import Library, NativeError, Variant, load
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from tests.support.programs import missing

_ARM: Final = (Variant.NEON, Variant.NEON_DOT)
VARIANTS: Final = tuple(
    each
    for each in Variant
    if each is Variant.PLAIN or (each in _ARM) == (platform.machine() in ("aarch64", "arm64"))
)
"""The variants of this architecture."""


def library() -> Library:
    """The library; a test without one is skipped."""
    try:
        return load()
    except NativeError as error:
        missing(str(error))


def need_variant(variant: Variant) -> Variant:
    """The variant, where this processor has it; else the test is skipped."""
    if variant not in library().variants:
        pytest.skip(f"this processor has no {variant.value}")
    return variant


def native(variant: Variant, threads: int = 1) -> Fallback:
    """The backend as it is shipped, of one variant."""
    return Fallback(NativeBackend(variant, threads), NumpyBackend())
