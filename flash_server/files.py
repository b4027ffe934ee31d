"""Files in and out: images mapped into memory, and files that appear whole or not at all."""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from aisrv.values.regular_file import LARGEST_FILE, open_regular
from aisrv.values.whole_file import write_whole
from flash_server.errors import FlashError

Progress = Callable[[int, int], None]
"""Called as bytes move: `progress(done, total)`."""


def ignore(_done: int, _total: int) -> None: ...


class InputError(FlashError):
    """A file or a setting given to the packager is missing or invalid."""


def map_file(path: Path) -> memoryview:
    """Map a regular file, read as it is used. Raises InputError."""
    try:
        file = open_regular(path, LARGEST_FILE)
        try:
            # A file of no bytes cannot be mapped.
            size = os.fstat(file).st_size
            return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ) if size else b"")
        finally:
            os.close(file)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def write_file(path: Path, chunks: Iterable[bytes], total: int, progress: Progress = ignore) -> None:
    """Write `total` bytes as one file, which replaces an old one when it is complete. Raises FlashError.

    Other files, like /dev/null or a pipe, are written as they are.
    """
    try:
        write_whole(path, _counted(chunks, total, progress))
    except OSError as error:
        raise FlashError(f"{path} cannot be written: {error.strerror}") from error


def _counted(chunks: Iterable[bytes], total: int, progress: Progress) -> Iterator[bytes]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        progress(done, total)
