"""Locks on whole files among processes: `flock`, and on Windows a lock on a byte far behind the end.

A lock ends when its descriptor is closed. Both functions raise BlockingIOError where another process is in
the way, and OSError where the file system has no locks.
"""

import errno
import os
import sys
from typing import Final

_BYTE: Final = 1 << 62
"""The byte that is locked on Windows, where nobody can read what another has locked."""


def hold_alone(file: int) -> None:
    """Lock a file that is open for writing; nobody else has a lock on it."""
    if sys.platform == "win32":
        _hold_byte(file)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hold_with_readers(file: int) -> None:
    """Lock a file that is read; others that read it may have it locked, too, but not on Windows."""
    if sys.platform == "win32":
        _hold_byte(file)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


if sys.platform == "win32":

    def _hold_byte(file: int) -> None:
        import msvcrt

        place = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                raise BlockingIOError(errno.EAGAIN, "locked by another process") from error
            raise
        finally:
            os.lseek(file, place, os.SEEK_SET)
