"""Backends by name: those that are shipped, and those that installed packages register.

A package registers a backend as an entry point of the group `aisrv.kernel_backends`: its name, and a class or
function that takes no arguments and returns the backend. Modules are imported when a backend is asked for.
"""

import pkgutil
from typing import TYPE_CHECKING, Final

from aisrv.addons.kernels.addon import MOST_THREADS
from aisrv.addons.kernels.errors import KernelError
from aisrv.values.extras import import_failure

# Names are asked for by those who start no kernel: what a backend needs is imported when one is created.
if TYPE_CHECKING:
    from aisrv.addons.kernels.backend import KernelBackend

GROUP: Final = "aisrv.kernel_backends"

EXTRAS: Final = {"unicorn": "relocatable"}
"""Third-party modules that a shipped backend needs, each with the extra of this package that installs it."""


SHIPPED: Final[dict[str, str | None]] = {
    "reference": "aisrv.addons.kernels.backends.reference:ReferenceBackend",
    "numpy": "aisrv.addons.kernels.backends.numpy.backend:NumpyBackend",
    "native": "aisrv.addons.kernels.backends.native.backend:native_backend",
    "relocatable": None,
}
"""Places of the shipped backends, None for an entry point; no other package can take one of these names."""

ASSUME_ALIGNED: Final = "+assume-aligned"
"""Suffix of any backend's name: it refuses buffers that do not start at a multiple of 16 bytes."""

FLOAT32_SCALES: Final = "+float32-scales"
"""Suffix of any backend's name, before the alignment: scales are multiplied in float32, as on devices."""

NATIVE: Final = "native"
"""The backend that has threads."""
THREADS: Final = "+threads="
"""Suffix of the backend `native`, before the number of threads."""


class BackendError(KernelError):
    """A backend that is unknown, or cannot be loaded; the message says what to do."""


def backend_names() -> tuple[str, ...]:
    """Every name that `find_backend` knows: those shipped, then those registered."""
    return (*SHIPPED, *sorted(_registered()))


def find_backend(name: str) -> "KernelBackend":
    """Create the backend of that name; raise BackendError where there is none or it does not load.

    `native+threads=N` is the backend `native` on N threads. With `NAME+float32-scales`, scales are multiplied
    in float32; with `NAME+assume-aligned`, buffers off a 16-byte boundary are an AlignmentError. A name has
    them in this order.
    """
    from aisrv.addons.kernels.backends.assume_aligned import AssumeAligned
    from aisrv.addons.kernels.backends.fallback import Float32Scales

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
    """Name the fastest backend that is installed: `native`, else `numpy`."""
    from aisrv.addons.kernels.backends.native.library import NativeError, load

    try:
        load()
    except NativeError:
        return "numpy"
    return NATIVE


def plain_name(name: str) -> str:
    """The name of a backend without its threads, its scales and what it assumes."""
    return _without_policies(name).partition(THREADS)[0]


def _without_policies(name: str) -> str:
    return name.removesuffix(ASSUME_ALIGNED).removesuffix(FLOAT32_SCALES)


def thread_count(name: str) -> int | None:
    """The threads that a name asks for, None where it names none; ValueError for what is no such number."""
    _, asked, count = _without_policies(name).partition(THREADS)
    if not asked:
        return None
    if not (count.isdecimal() and 1 <= int(count) <= MOST_THREADS):
        raise ValueError(f"{count!r} is not a number of threads from 1 to {MOST_THREADS}")
    return int(count)


def _create(name: str, options: dict[str, int]) -> "KernelBackend":
    from aisrv.addons.kernels.backends.native.library import NativeError

    place = SHIPPED.get(name) or _registered(shipped=name in SHIPPED).get(name)
    if place is None:
        raise BackendError(f"there is no kernel backend {name!r}; there are: {', '.join(backend_names())}")
    try:
        backend = pkgutil.resolve_name(place)(**options)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        needs = f"the kernel backend {name!r} needs the module {error.name}"
        raise BackendError(import_failure(needs, error, extra) if extra else needs) from error
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
    from aisrv.addons.kernels.backend import OPERATORS, SCRATCH_SIZES
    from aisrv.addons.kernels.backends.fallback import own_method

    missing = [method for method in (*OPERATORS, *SCRATCH_SIZES) if not callable(own_method(backend, method))]
    if missing:
        raise BackendError(
            f"the kernel backend {name!r} has no {', '.join(missing)}; "
            "give it another backend for the rest with aisrv.addons.kernels.backends.fallback.Fallback"
        )
