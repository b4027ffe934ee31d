"""Where TensorFlow Lite Micro's inputs are, so that what a run leaves of them can be read.

The binding writes inputs but does not read them back. The memory of its object is searched instead, once
when a model is loaded: the arena is one of the pointers in it, and an input is where bytes that are written
through the binding turn up. A search that does not end with one place is made again, and then gives none.
"""

import ctypes
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np

_PYBIND_VALUE: Final = 16
"""Offset of the pointer to the C++ object in pybind11's `instance` (`pybind11/detail/common.h`)."""
_POINTERS: Final = struct.Struct("<16Q")
"""The start of the C++ object, which has the arena among its first members."""
_ALIGNMENT: Final = 16
"""Bytes to which tensors are aligned in the arena."""
_ROUNDS: Final = 3
_SEARCHES: Final = 3
_DECOYS: Final = 16
"""Blocks of an input's size that are taken before each round: more than numpy keeps for reuse."""
_ENOUGH: Final = 32
"""Random bytes that do not turn up by chance."""

WriteInput = Callable[[int, memoryview], None]


def locate_inputs(
    interpreter: object, write: WriteInput, sizes: Sequence[int], arena_bytes: int
) -> list[memoryview | None]:
    """Find the memory of each input of `sizes` bytes, None where it cannot be told. Overwrites all inputs."""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        arenas = _candidates(memory, interpreter)
        return [
            _locate_repeatedly(partial(_locate, memory, arenas, arena_bytes, size, partial(write, number)))
            for number, size in enumerate(sizes)
        ]
    finally:
        os.close(memory)


def _locate_repeatedly(locate: Callable[[], memoryview | None]) -> memoryview | None:
    """Search again where copies of a mark in the heap left it open which place is the input."""
    return next((found for _ in range(_SEARCHES) if (found := locate()) is not None), None)


def _candidates(memory: int, interpreter: object) -> list[int]:
    (value,) = struct.unpack("<Q", _read(memory, id(interpreter) + _PYBIND_VALUE, 8))
    words = _read(memory, value, _POINTERS.size)
    return sorted(set(_POINTERS.unpack(words))) if len(words) == _POINTERS.size else []


def _locate(
    memory: int, arenas: list[int], arena_bytes: int, size: int, write: Callable[[memoryview], None]
) -> memoryview | None:
    if not size:
        return None
    marks = [os.urandom(size)]  # all are kept, so that no two of them can be at one place in the heap
    write(memoryview(marks[0]))
    places = {
        arena + offset for arena in arenas for offset in _offsets(_read(memory, arena, arena_bytes), marks[0])
    }
    taken = []
    for _ in range(max(_ROUNDS, -(-_ENOUGH // size)) - 1):
        # Memory that the binding copies through is free again, and would be at the same place each time.
        taken += [np.empty(size, np.uint8) for _ in range(_DECOYS)]
        marks.append(os.urandom(size))
        write(memoryview(marks[-1]))
        places = {place for place in places if _read(memory, place, size) == marks[-1]}
    if len(places) != 1:
        return None
    return memoryview((ctypes.c_ubyte * size).from_address(places.pop())).cast("B")


def _offsets(data: bytes, mark: bytes) -> Iterator[int]:
    offset = data.find(mark)
    while offset >= 0:
        if offset % _ALIGNMENT == 0:
            yield offset
        offset = data.find(mark, offset + 1)


def _read(memory: int, address: int, size: int) -> bytes:
    """Read this process's memory; what is not mapped is cut off, and kills nobody."""
    with suppress(OSError, OverflowError):
        return os.pread(memory, size, address)
    return b""
