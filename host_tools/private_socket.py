"""A place for a Unix socket that only this user's programs reach."""

from collections.abc import Iterator
from contextlib import contextmanager

from host_tools.private_directory import private_directory

_NAME = "usbip"


@contextmanager
def private_socket() -> Iterator[str]:
    """Give the path of a socket to be, in a new directory that is removed at the end of the block."""
    with private_directory(_NAME) as directory:
        yield str(directory / _NAME)
