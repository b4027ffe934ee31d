"""Files that lie elsewhere: addresses that fsspec understands, as `s3://bucket/cats/1.png`.

How fsspec names and opens file systems, and where each takes its settings from:
https://filesystem-spec.readthedocs.io, section "Usage" and section "Configuration".
"""

import errno
import os
import posixpath
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import urlsplit

from aisrv.addons.evaluate.errors import DataError, ExtraError
from aisrv.values.extras import import_failure
from aisrv.values.parser_errors import parser_errors, reason_of
from aisrv.values.printable import printable
from aisrv.values.regular_file import LARGEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec import AbstractFileSystem

_LOCAL: Final = ("file", "local")

CHAIN: Final = "::"
"""Stands before the address of the archive that an address is in."""
_PIECE: Final = 1 << 20

SEPARATOR: Final = "://"
"""What an address has and no path of pathlib: that makes one slash of two."""


class Url(str):
    """The address of a file or folder; one in an archive as `zip://cats/1.png::s3://bucket/data.zip`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """How it is reached, as `s3`, and where an archive lies that it is in."""
        inner, chain, rest = self.partition(CHAIN)
        return inner.partition(SEPARATOR)[0] + chain + rest

    @property
    def suffix(self) -> str:
        """The ending of its name with the dot, as a path has it."""
        return posixpath.splitext(self.partition(CHAIN)[0])[1]

    @property
    def name(self) -> str:
        """The last part of it, as a path has it."""
        return posixpath.basename(self.partition(CHAIN)[0])

    def with_name(self, name: str) -> "Url":
        """Return the address of another file in the same folder, by its `name` there."""
        inner, chain, rest = self.partition(CHAIN)
        protocol, separator, place = inner.partition(SEPARATOR)
        folder, slash, _ = place.rpartition("/")
        return Url(f"{protocol}{separator}{folder}{slash}{name}{chain}{rest}")


def is_url(source: str) -> bool:
    """Return whether a name is an address and no path."""
    return SEPARATOR in source


def source_of(name: str) -> Path | Url:
    """Return a path, or an address that may stand in a run's folder; DataError for one with a password in it.

    Addresses of files of this machine are paths, too.
    """
    if not is_url(name):
        return Path(name)
    url = Url(name)
    if SEPARATOR not in url.partition(CHAIN)[0]:
        raise DataError(f"{url}: leave out what stands before the first {CHAIN}")
    if url.kind in _LOCAL:
        return Path(url.partition(SEPARATOR)[2])
    place = urlsplit(url).netloc
    if "@" in place:
        shown = url.replace(place, place.rpartition("@")[2])
        raise DataError(
            f"{shown}: leave user and password out, as the address is kept with the run: "
            "fsspec takes them from its configuration or the environment"
        )
    return url


def is_file(url: Url) -> bool:
    """Return whether an address is that of a file; DataError where nobody says."""
    with _opened(url) as (files, place):
        return bool(files.isfile(place))


def is_folder(url: Url) -> bool:
    """Whether an address is that of a folder; DataError. On a web server only a slash at its end tells."""
    if url.partition(CHAIN)[0].endswith("/"):
        return True
    with _opened(url) as (files, place):
        return not files.isfile(place) and bool(files.isdir(place))


def list_folder(url: Url) -> list[tuple[str, Url]]:
    """Return the files of a folder and of those in it: name below the folder, and address; DataError."""
    folder, chain, rest = url.partition(CHAIN)
    with _opened(url) as (files, place):
        root = f"{place.strip('/')}/".removeprefix("/")
        found = [str(each).lstrip("/") for each in files.find(place)]
    names = [each.removeprefix(root) for each in found if each.startswith(root)]
    return [(name, Url(f"{folder.rstrip('/')}/{name}{chain}{rest}")) for name in names]


def size_of(url: Url) -> int:
    """Return the bytes of a file; DataError."""
    with _opened(url) as (files, place):
        size = files.size(place)
    if not isinstance(size, int):
        raise DataError(f"{url}: its server does not say how large it is")
    return size


def read_url(url: Url, largest: int = LARGEST_FILE) -> bytes:
    """Return the bytes of a file; DataError where it has more than `largest`, or cannot be read."""
    with _opened(url) as (files, place), files.open(place, "rb") as file:
        data: bytes = file.read(largest + 1)
    if len(data) > largest:
        raise DataError(f"{url}: it has more than {largest} bytes")
    return data


def download(url: Url, file: BinaryIO, largest: int = LARGEST_FILE) -> None:
    """Copy the bytes of a file to another, a piece at a time; DataError as `read_url`."""
    with _opened(url) as (files, place), files.open(place, "rb") as source:
        count = 0
        while piece := source.read(_PIECE):
            count += len(piece)
            if count > largest:
                raise DataError(f"{url}: it has more than {largest} bytes")
            file.write(piece)


def beginning_of(url: Url, count: int) -> bytes:
    """Return the first `count` bytes of a file, or all there are; DataError."""
    with _opened(url) as (files, place), files.open(place, "rb") as file:
        data: bytes = file.read(count)
    return data


@contextmanager
def _opened(url: Url) -> "Iterator[tuple[AbstractFileSystem, str]]":
    """Provide the file system of an address and the place in it; its errors are DataError, ExtraError."""
    try:
        import fsspec
    except ImportError as error:
        raise ExtraError(f"{url}: {import_failure('addresses need fsspec', error, 'fleet')}") from None
    try:
        with parser_errors(url, DataError, (ExtraError, ImportError, FileNotFoundError)):
            files: Any
            place: str
            files, place = fsspec.core.url_to_fs(url)
            yield files, place
    except ImportError as error:
        raise ExtraError(f"{printable(url)}: {reason_of(error)}") from None
    except FileNotFoundError:
        raise DataError(f"{printable(url)}: {os.strerror(errno.ENOENT)}") from None
