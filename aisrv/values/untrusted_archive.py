"""Zip archives that nobody vouches for: a bounded list of files, read in pieces by one way of packing."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from aisrv.values.parser_errors import parser_errors

PIECE: Final = 1 << 20
"""Bytes of the largest piece that is read at once: the list of files, a comment, or a part of a file."""

_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The others unpack a piece whole, however much it becomes."""


@contextmanager
def opened_archive(data: memoryview, what: str, kind: type[Exception]) -> Iterator[zipfile.ZipFile]:
    """Open an archive by its bytes, in memory or mapped.

    Raises `kind`, beginning with `what`, for whatever the block finds to be damaged.
    """
    with (
        parser_errors(what, kind),
        _View(data) as file,
        zipfile.ZipFile(cast("BinaryIO", file)) as archive,
    ):
        yield archive


def opened_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    """Open a file of an archive for reading in pieces; zipfile's errors, ValueError."""
    if member.compress_type not in _PACKED:
        raise ValueError(f"{member.filename} is packed in a way that is not read: store it, or deflate it")
    return cast("BinaryIO", archive.open(member))


class _View(io.RawIOBase):
    """Bytes in memory as a file, not copied as a whole; a read of more than a piece is an OSError."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if start + offset < 0:
            raise OSError(f"a place {-start - offset} bytes before the start")
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, len(self._data) - self._at)
        size = left if size is None or size < 0 else min(size, left)
        if size > PIECE:
            raise OSError(f"{size} bytes in one go, at most {PIECE} are read")
        piece = bytes(self._data[self._at : self._at + size])
        self._at += size
        return piece
