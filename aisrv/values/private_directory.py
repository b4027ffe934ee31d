"""A directory of this user's alone, for sockets and the like, that does not outlive the process for long.

The process holds a lock in it. The next process to make one removes those whose process was killed before it
could: those with a lock that nobody holds.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "aisrv-"
LOCK: Final = "lock"
"""File whose lock says that a process has the directory."""

_RANDOM_PART: Final = "01234567"
_SOCKET_PATH_LIMIT: Final = 103
"""Bytes of a socket's path: its address has room for 104 (macOS) or 108, with a zero at its end."""


@contextmanager
def private_directory(longest: str = "", parent: str | None = None) -> Iterator[Path]:
    """Create a directory, for as long as the block lasts, in which a socket may have the path `longest`.

    It is in `parent`, by default among the temporary files if that leaves room for the socket's path.
    """
    parent = parent or tempfile.gettempdir()
    if len(os.fsencode(f"{parent}/{PREFIX}{_RANDOM_PART}/{longest}")) > _SOCKET_PATH_LIMIT:
        parent = "/tmp"  # noqa: S108 - what is made there is private
    sweep(Path(parent))
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = None
    try:
        lock = _hold(directory)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def private_sockets(*names: str) -> Iterator[tuple[str, ...]]:
    """Give the paths of sockets to be, in a new directory that is removed at the end of the block."""
    with private_directory(max(names, key=len)) as directory:
        yield tuple(str(directory / name) for name in names)


@contextmanager
def private_socket(name: str = "usbip") -> Iterator[str]:
    with private_sockets(name) as (path,):
        yield path


def sweep(parent: Path) -> None:
    """Remove the directories of processes that are gone."""
    for path in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # another user's, or gone meanwhile
            _remove_if_left(path)


def held_directories(parent: Path) -> Iterator[Path]:
    """Yield the directories that this user's processes hold now: nobody else reads or writes there."""
    import fcntl

    for path in sorted(parent.glob(f"{PREFIX}*/{LOCK}")):
        with suppress(OSError):  # another user's, or gone meanwhile
            status = path.parent.lstat()
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                continue
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield path.parent
            finally:
                os.close(lock)


def _remove_if_left(path: Path) -> None:
    import fcntl  # where there are such directories

    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid != os.geteuid() or path.parent.is_symlink():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path.parent)
    finally:
        os.close(lock)


def _hold(directory: Path) -> int:
    """Lock the directory's file before it has its name; return its descriptor."""
    import fcntl

    lock = os.open(directory / "new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (directory / "new").rename(directory / LOCK)
    return lock
