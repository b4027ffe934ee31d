"""Files that appear whole or not at all: all that the product writes for users, but for recordings."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can be neither removed nor replaced
    fcntl = None  # type: ignore[assignment]

_LEFT: Final = re.compile(r"(\..+\.)[0-9a-f]{8}\.part")
"""The name of a file beside one that is written, and what begins it."""


def write_whole(path: Path, chunks: Iterable[bytes], *, durable: bool = False) -> None:
    """Write a file that replaces an old one when it is complete. Raises OSError with `path`.

    A durable one is on the disk before it takes its name: it is there, whole, after a loss of power, too.

    Until then the bytes are in a file beside it, which is removed on any error. If the process is killed, the
    next to write the same file removes it. Other files, like /dev/null or a pipe, are written as they are.
    """
    target = Path(os.path.realpath(path))
    if target.is_file() or not target.exists():
        _remove_left(target.parent, _stem(target))
    write_among_many(path, chunks, durable=durable)


def write_among_many(path: Path, chunks: Iterable[bytes], *, durable: bool = False) -> None:
    """Do as `write_whole` in a folder of many files: what killed processes left is for `remove_left`.

    To search the folder at each write takes longer the more files there are.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f"{_stem(target)}{os.urandom(4).hex()}.part")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                file.writelines(chunks)
            return
        try:
            with _held(beside) as file:
                file.writelines(chunks)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                if fcntl is not None:  # while it is held: nobody takes it for one that was left
                    beside.replace(target)
            if fcntl is None:
                beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        # A write that fails names no file; an error of `chunks` may name another.
        if error.filename is None or Path(error.filename) in (beside, target):
            error.filename, error.filename2 = str(path), None
        raise


def _stem(target: Path) -> str:
    return f".{target.name[:200]}."


def remove_left(folder: Path) -> None:
    """Remove what killed processes left beside all files of a folder; nothing of those that still write."""
    stems = {match[1] for name in os.listdir(folder) if (match := _LEFT.fullmatch(name))}  # noqa: PTH208
    for stem in stems:
        _remove_left(folder, stem)


@contextmanager
def _held(path: Path) -> Iterator[BinaryIO]:
    """Make a file and lock it for as long as it is open."""
    while True:
        with path.open("xb") as file:
            if fcntl is not None:
                with suppress(OSError):  # some file systems have no locks: nothing is removed there
                    fcntl.flock(file, fcntl.LOCK_EX)
            if fcntl is None or os.fstat(file.fileno()).st_nlink:  # else removed before it was locked
                yield file
                return


def _remove_left(folder: Path, stem: str) -> None:
    """Remove the files of processes that were killed: those whose lock nobody holds."""
    length, digits = len(stem) + len("01234567.part"), set("0123456789abcdef")
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a folder of thousands of parts is searched for each
    except PermissionError:  # a sandbox, or a folder in which one may only write
        return
    for name in names:
        if not name.startswith(stem) or not name.endswith(".part") or len(name) != length:
            continue
        if not set(name[len(stem) : -len(".part")]) <= digits:
            continue
        path = folder / name
        with suppress(OSError):  # another's, which is held, or gone meanwhile
            if fcntl is None:
                path.unlink()
                continue
            with path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
