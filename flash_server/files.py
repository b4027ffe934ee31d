"""Files in and out: images mapped into memory, and files that appear whole or not at all."""

import mmap
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from stat import S_ISREG

from flash_server.errors import FlashError

Progress = Callable[[int, int], None]
"""Called as bytes move: `progress(done, total)`."""


def ignore(_done: int, _total: int) -> None:
    """Report no progress."""


class InputError(FlashError):
    """A file or a setting given to the packager is missing, or makes no sense."""


def map_file(path: Path) -> memoryview:
    """The bytes of a file, read as they are used; InputError where it cannot be opened."""
    try:
        with path.open("rb") as file:
            # A file of no bytes cannot be mapped, nor can a pipe.
            size = os.fstat(file.fileno()).st_size
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else file.read())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def write_file(path: Path, chunks: Iterable[bytes], total: int, progress: Progress = ignore) -> None:
    """Write `total` bytes as one file, which takes the place of an old one when it is complete.

    Until then they are in a file beside it, which is removed on any error. FlashError where that cannot be
    written. What is not a regular file, like /dev/null or a pipe, is written as it is.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not S_ISREG(target.stat().st_mode):
            with target.open("wb") as file:
                _write(file.write, chunks, total, progress)
            return
        beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
        try:
            with beside.open("xb") as file:
                _write(file.write, chunks, total, progress)
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FlashError(f"{path} cannot be written: {error.strerror}") from error


def _write(write: Callable[[bytes], int], chunks: Iterable[bytes], total: int, progress: Progress) -> None:
    done = 0
    for chunk in chunks:
        write(chunk)
        done += len(chunk)
        progress(done, total)
