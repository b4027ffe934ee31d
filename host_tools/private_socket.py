"""A place for a Unix socket that only this user's programs reach."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LONGEST_DIRECTORY: Final = 80
"""Bytes: the address of a Unix socket has room for 104 (macOS) or 108, with what is appended here."""


@contextmanager
def private_socket() -> Iterator[str]:
    """Give the path of a socket to be, in a new directory that is removed at the end of the block."""
    too_long = len(os.fsencode(tempfile.gettempdir())) > _LONGEST_DIRECTORY
    parent = "/tmp" if too_long else None  # noqa: S108 - the directory in it is this user's alone
    with tempfile.TemporaryDirectory(prefix="aisrv-", dir=parent) as directory:
        yield f"{directory}/usbip"
