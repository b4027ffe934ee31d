"""What `aisrv doctor` says of native kernels."""

from collections.abc import Iterator
from typing import Final

from aisrv.addons.kernels.backends.native.library import NativeError, load
from aisrv.cli.doctor import Finding, State

NATIVE_USE: Final = "speed of --engine kernels"


def findings() -> Iterator[Finding]:
    """Describe the variant of the native kernels on this processor."""
    try:
        variant = load().variants[-1]
    except NativeError as error:
        detail, helps = (
            f"{error}; slower ones serve until aisrv is installed with gcc",
            "sudo apt-get install gcc",
        )
        yield Finding("native kernels", State.MISSING, detail, helps, NATIVE_USE)
    else:
        yield Finding("native kernels", State.WORKS, variant.value, use=NATIVE_USE)
