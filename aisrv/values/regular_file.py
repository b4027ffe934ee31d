"""Files that are read whole: regular ones within a bound. A pipe would wait, a device might never end."""

import errno
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO, Final

LARGEST_FILE: Final = 1 << 30
"""Bytes of the largest file that anything here reads whole; models for a device have at most 64 MiB."""

ANY_SIZE: Final = sys.maxsize
"""No limit, for a file that is read in pieces."""


def read_regular(path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> bytes:
    """Read a regular file of at most `largest` bytes, without waiting. Raises OSError."""
    with opened_regular(path, largest) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1)
        if len(data) > size:  # it has grown
            data += file.read(largest + 1 - len(data))
    if len(data) > largest:
        raise _too_large(path, largest)
    return data


def opened_regular(path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> BinaryIO:
    """Open a regular file of at most `largest` bytes for reading. Raises OSError."""
    return os.fdopen(open_regular(path, largest), "rb")


def open_regular(path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> int:
    """Open a regular file of at most `largest` bytes for reading; returns its descriptor. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise OSError(errno.EINVAL, "a file's name has no zero byte", repr(path)) from None
    try:
        _check(os.fstat(descriptor), path, largest)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> None:
    """Raise OSError unless a path is that of a regular file of at most `largest` bytes."""
    try:
        _check(Path(path).stat(), path, largest)
    except ValueError:
        raise OSError(errno.EINVAL, "a file's name has no zero byte", repr(path)) from None


def _check(status: os.stat_result, path: str | os.PathLike[str], largest: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    if status.st_size > largest:
        raise _too_large(path, largest)


def _too_large(path: str | os.PathLike[str], largest: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {largest} bytes", os.fspath(path))
