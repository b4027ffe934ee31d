"""A plugin of pytest: native kernels work on buffers that lie alone in memory, and end where they end.

    python -m pytest -p tests.support.exact_memory TESTS

AISRV_TEST_MEMORY is the kind of memory: `behind` and `before` have a page that nobody may touch right behind
each buffer, or right before it, so that a kernel that goes over an end dies of SIGSEGV; `heap` is that of
malloc, for a library that was compiled with AddressSanitizer. AISRV_TEST_LIBRARY is a folder with another
library and its source, AISRV_TEST_SPARE_ELEMENTS what copies of inputs have behind their end in place of the
usual.

Each buffer is copied there before a call of the library, and what has changed is copied back after it.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from aisrv.addons.kernels.backends.native import backend, pictures, steps
from aisrv.addons.kernels.backends.native import library as native_library
from aisrv.addons.kernels.network import load as network_load
from aisrv.addons.kernels.network.plan import plan_apart

_PAGE: Final = mmap.PAGESIZE
_NONE: Final = 0
"""PROT_NONE."""
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = (ctypes.c_size_t,)
_libc.free.argtypes = (ctypes.c_void_p,)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Place(NamedTuple):
    """Where bytes lie, and what gives them back."""

    address: int
    free: Callable[[], object]


def _guarded(size: int, *, behind: bool) -> Place:
    room = -(-max(size, 1) // _PAGE) * _PAGE
    memory = mmap.mmap(-1, room + _PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert _libc.mprotect(start + (room if behind else 0), _PAGE, _NONE) == 0
    return Place(start + room - size if behind else start + _PAGE, memory.close)


def _allocated(size: int) -> Place:
    address = _libc.malloc(size)
    return Place(address, lambda: _libc.free(address))


PLACES: Final[dict[str, Callable[[int], Place]]] = {
    "behind": lambda size: _guarded(size, behind=True),
    "before": lambda size: _guarded(size, behind=False),
    "heap": _allocated,
}


class Buffer(NamedTuple):
    """A buffer of a test's, and its copy."""

    data: Any  # which stays as long as this
    address: int
    size: int
    place: Place


class ExactMemory:
    """All buffers that kernels were prepared with since the last `clear`."""

    def __init__(self, find_place: Callable[[int], Place]) -> None:
        self._find_place = find_place
        self._buffers: dict[tuple[int, int], Buffer] = {}

    def address(self, data: Any) -> int:
        """Give the address of the copy: what kernels are prepared with."""
        array = np.asarray(data)
        low = array.__array_interface__["data"][0]
        # Of steps from element to element that go forward.
        reach = sum((count - 1) * step for count, step in zip(array.shape, array.strides, strict=True))
        size = reach + array.itemsize if array.size else 0
        if (low, size) not in self._buffers:
            self._buffers[low, size] = Buffer(data, low, size, self._find_place(size))
            self._fill(self._buffers[low, size])
        return self._buffers[low, size].place.address

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function of the library."""
        for buffer in self._buffers.values():
            self._fill(buffer)
        function(*arguments)
        for buffer in self._buffers.values():
            new = ctypes.string_at(buffer.place.address, buffer.size)
            if new != ctypes.string_at(buffer.address, buffer.size):
                ctypes.memmove(buffer.address, new, buffer.size)

    def clear(self) -> None:
        """Give all copies back."""
        for buffer in self._buffers.values():
            buffer.place.free()
        self._buffers.clear()

    @staticmethod
    def _fill(buffer: Buffer) -> None:
        ctypes.memmove(buffer.place.address, buffer.address, buffer.size)


class Functions:
    """The library's functions, those that run steps in exact memory."""

    def __init__(self, real: Any, memory: ExactMemory) -> None:
        self._real = real
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def aisrv_run(self, *arguments: Any) -> None:
        self._memory.call(self._real.aisrv_run, *arguments)

    def aisrv_team_run(self, *arguments: Any) -> None:
        self._memory.call(self._real.aisrv_team_run, *arguments)


def _install() -> ExactMemory:
    memory = ExactMemory(PLACES[os.environ["AISRV_TEST_MEMORY"]])
    if folder := os.environ.get("AISRV_TEST_LIBRARY"):
        native_library.FOLDER = Path(folder)  # type: ignore[misc]
    real = native_library.load()
    exact = real._replace(functions=Functions(real.functions, memory))  # type: ignore[arg-type]
    for module in (native_library, backend):
        module.load = lambda: exact  # type: ignore[attr-defined]
    for module in (pictures, steps):
        module.address = memory.address  # type: ignore[attr-defined]
    # Tensors that share bytes at different times would be copied over each other.
    assert network_load.load_network.__kwdefaults__ is not None
    network_load.load_network.__kwdefaults__["planner"] = plan_apart
    if spare := os.environ.get("AISRV_TEST_SPARE_ELEMENTS"):
        pictures.SPARE = int(spare)  # type: ignore[misc]
    return memory


_memory: Final = _install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Give memory back after each test."""
    try:
        return (yield)
    finally:
        _memory.clear()
