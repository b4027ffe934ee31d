"""The first blob of a `.params` file: a flexbuffer in which a model's parameters lie as blobs.

The blob may be the root, or lie in vectors and maps below it; the first one counts, depth first, in the order
in which they are stored.
"""

from typing import TYPE_CHECKING, Final

from aisrv.values.parser_errors import parser_errors
from flash_server.files import InputError

if TYPE_CHECKING:
    from flatbuffers.flexbuffers import Ref

_VISITS: Final = 10_000
"""Limit of values: vectors may share their elements, so a small file can hold a great many."""

_DEPTH: Final = 64


def first_blob(data: bytes) -> bytes:
    """Return the first blob of a flexbuffer. Raises InputError."""
    from flatbuffers import flexbuffers

    # The root's width; the reader would take any number and look elsewhere.
    if len(data) < 3 or data[-1] not in (1, 2, 4, 8):
        raise InputError("no flexbuffer: it ends with the width of its root, which is 1, 2, 4 or 8")
    with parser_errors("no flexbuffer", InputError):
        found = _Search(len(data)).find(flexbuffers.GetRoot(data), 0)
    if found is None:
        raise InputError("the flexbuffer has no blob")
    return found


class _Search:
    def __init__(self, size: int) -> None:
        self._size = size
        self._visits = 0

    def find(self, value: "Ref", depth: int) -> bytes | None:
        from flatbuffers.flexbuffers import Blob

        self._visits += 1
        if self._visits > _VISITS or depth > _DEPTH:
            raise ValueError("too many values before the first blob")
        if value.IsBlob:
            blob = value.AsBlob
            # The reader cuts a blob off at the end of the file without a word.
            size = len(Blob(value._Indirect(), value._byte_width))
            if len(blob) != size:
                raise ValueError(f"a blob of {size} bytes in a file of {self._size}")
            return bytes(blob)
        if value.IsVector:
            elements = value.AsVector
            for index in range(min(len(elements), self._size)):
                found = self.find(elements[index], depth + 1)
                if found is not None:
                    return found
        return None
