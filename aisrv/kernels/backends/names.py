"""The names of the shipped backends, for those who start no kernel."""

from typing import Final

SHIPPED: Final[dict[str, str | None]] = {
    "reference": "aisrv.kernels.backends.reference:ReferenceBackend",
    "numpy": "aisrv.kernels.backends.numpy.backend:NumpyBackend",
    "native": "aisrv.kernels.backends.native.backend:native_backend",
    "numba": "aisrv.kernels.backends.numba_backend:NumbaBackend",
    "relocatable": None,
}
"""Where the shipped backends are, None for an entry point; no other package can take one of these names."""

ASSUME_ALIGNED: Final = "+assume-aligned"
"""Behind the name of any backend: it refuses buffers that do not start at a multiple of 16 bytes."""

FLOAT32_SCALES: Final = "+float32-scales"
"""Behind the name of any backend, before the alignment: scales are multiplied in float32, as on devices."""

NATIVE: Final = "native"
"""The backend that has threads."""
THREADS: Final = "+threads="
"""Behind the name of the backend `native`, before a number: its kernels run on so many threads."""
MOST_THREADS: Final = 64


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
