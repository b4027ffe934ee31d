"""Backends by name: those that are shipped, and those that installed packages register.

A package registers a backend as an entry point of the group `aisrv.kernel_backends`: its name, and a class or
function that takes no arguments and returns the backend. Modules are imported when a backend is asked for.
"""

import pkgutil
from importlib.util import find_spec
from typing import Final

from aisrv.kernels.backend import OPERATORS, SCRATCH_SIZES, KernelBackend
from aisrv.kernels.backends.assume_aligned import AssumeAligned
from aisrv.kernels.backends.fallback import own_method
from aisrv.kernels.backends.float32_scales import Float32Scales
from aisrv.kernels.backends.names import (
    ASSUME_ALIGNED,
    FLOAT32_SCALES,
    NATIVE,
    SHIPPED,
    plain_name,
    thread_count,
)
from aisrv.kernels.backends.native.library import NativeError, load
from aisrv.kernels.errors import KernelError
from aisrv.values.extras import install_command

GROUP: Final = "aisrv.kernel_backends"

EXTRAS: Final = {"numba": "numba", "unicorn": "relocatable"}
"""Third-party modules that a shipped backend needs, each with the extra of this package that installs it."""


class BackendError(KernelError):
    """There is no backend of that name, or it cannot be loaded; the message says what to do."""


def backend_names() -> tuple[str, ...]:
    """Every name that `find_backend` knows: those shipped, then those registered."""
    return (*SHIPPED, *sorted(_registered()))


def find_backend(name: str) -> KernelBackend:
    """Create the backend of that name; raise BackendError where there is none or it does not load.

    `native+threads=N` is the backend `native` on N threads. With `NAME+float32-scales`, scales are multiplied
    in float32; with `NAME+assume-aligned`, buffers off a 16-byte boundary are an AlignmentError. A name has
    them in this order.
    """
    plain, options = plain_name(name), dict[str, int]()
    try:
        threads = thread_count(name)
    except ValueError as error:
        raise BackendError(f"the kernel backend {name!r}: {error}") from None
    if threads is not None:
        if plain != NATIVE:
            raise BackendError(f"the kernel backend {plain!r} runs on one thread; {NATIVE} takes a number")
        options = {"threads": threads}
    backend = _create(plain, options)
    if name.endswith(ASSUME_ALIGNED):
        backend = AssumeAligned(backend)
    return Float32Scales(backend) if name.removesuffix(ASSUME_ALIGNED).endswith(FLOAT32_SCALES) else backend


def default_backend() -> str:
    """Name the fastest backend that is installed: `native`, else `numba`, else `numpy`."""
    try:
        load()
    except NativeError:
        return "numba" if find_spec("numba") else "numpy"
    return NATIVE


def _create(name: str, options: dict[str, int]) -> KernelBackend:
    place = SHIPPED.get(name) or _registered(shipped=name in SHIPPED).get(name)
    if place is None:
        raise BackendError(f"there is no kernel backend {name!r}; there are: {', '.join(backend_names())}")
    try:
        backend = pkgutil.resolve_name(place)(**options)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        advice = f": {install_command(extra)}" if extra else ""
        raise BackendError(f"the kernel backend {name!r} needs the module {error.name}{advice}") from error
    except NativeError as error:
        raise BackendError(f"the kernel backend {name!r} does not load: {error}") from error
    # A backend of somebody else may fail to load in any way, and a wrong one must not end the program.
    except Exception as error:
        raise BackendError(
            f"the kernel backend {name!r} ({place}) does not load: {type(error).__name__}: {error}"
        ) from error
    _check_complete(name, backend)
    return backend  # type: ignore[no-any-return]  # _check_complete has looked at it


def registered_backends() -> dict[str, str]:
    """Return the names of backends that installed packages register, with the package of each."""
    from importlib.metadata import entry_points

    found = {
        each.name: each.dist.name if each.dist else _place(each.value)
        for each in entry_points(group=GROUP)
        if each.name not in SHIPPED
    }
    return dict(sorted(found.items()))


def _registered(*, shipped: bool = False) -> dict[str, str]:
    """Return where registered backends are, as `module:attribute`, by name: shipped ones, or all others."""
    from importlib.metadata import entry_points  # which most of the shipped ones do not need

    return {
        each.name: _place(each.value)
        for each in entry_points(group=GROUP)
        if (each.dist is not None and each.dist.name == "aisrv" if shipped else each.name not in SHIPPED)
    }


def _place(value: str) -> str:
    """Take spaces and extras off an entry point's value."""
    return "".join(value.partition("[")[0].split())


def _check_complete(name: str, backend: object) -> None:
    missing = [method for method in (*OPERATORS, *SCRATCH_SIZES) if not callable(own_method(backend, method))]
    if missing:
        raise BackendError(
            f"the kernel backend {name!r} has no {', '.join(missing)}; "
            "give it another backend for the rest with aisrv.kernels.backends.fallback.Fallback"
        )
