"""Places for Unix sockets that only this user's programs reach."""

from collections.abc import Iterator
from contextlib import contextmanager

from host_tools.private_directory import private_directory


@contextmanager
def private_sockets(*names: str) -> Iterator[tuple[str, ...]]:
    """Give the paths of sockets to be, in a new directory that is removed at the end of the block."""
    with private_directory(max(names, key=len)) as directory:
        yield tuple(str(directory / name) for name in names)


@contextmanager
def private_socket(name: str = "usbip") -> Iterator[str]:
    """Give the path of one socket to be, as `private_sockets` does."""
    with private_sockets(name) as (path,):
        yield path
