"""The message of TensorFlow Lite Micro about a small arena, read back as numbers.

    Failed to resize buffer. Requested: 192, available 32, missing: 160

Its allocators print this line (`single_arena_buffer_allocator.cc`); XMOS's interpreter has the same ones.
"""

import re
from typing import Final, NamedTuple

from aisrv.inference.errors import ModelError
from aisrv.model.errors import LoadResult


class Shortage(NamedTuple):
    """The first allocation that the arena had no room for, in bytes."""

    requested: int
    available: int
    missing: int


_LINE: Final = re.compile(
    r"^Failed to (?:resize buffer|allocate \w+ memory)\. "
    r"Requested: (\d+), available:? (\d+), missing: (\d+)",
    re.MULTILINE,
)


def find_shortage(printed: str) -> Shortage | None:
    """Find the first allocation that failed in the output of an interpreter that loaded a model."""
    found = _LINE.search(printed)
    return None if found is None else Shortage(*map(int, found.groups()))


def load_error(text: str, result: LoadResult, printed: str) -> ModelError:
    """Return the error for a model that could not be loaded, from its text and the interpreter's output."""
    shortage = find_shortage(printed)
    if shortage is None:
        return ModelError(text, result)
    return ModelError(
        f"{text}; the tensor arena is too small: {shortage.requested:,} bytes needed next, "
        f"{shortage.available:,} available, {shortage.missing:,} missing",
        LoadResult.TENSORS_DO_NOT_FIT,
    )
