"""The files of data, wherever they lie: as files of this machine, and mapped."""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from aisrv.addons.evaluate.data.urls import Url, download
from aisrv.addons.evaluate.errors import DataError
from aisrv.values.parser_errors import reason_of
from aisrv.values.printable import printable
from aisrv.values.regular_file import ANY_SIZE, opened_regular


@contextmanager
def opened_data(path: Path | Url) -> Iterator[BinaryIO]:
    """Open a file of data; one that lies elsewhere is copied to the disk first. DataError, ExtraError."""
    try:
        file = opened_regular(path, ANY_SIZE) if isinstance(path, Path) else _copied(path)
    except OSError as error:
        raise DataError(f"{printable(str(path))}: {reason_of(error)}") from None
    with file:
        yield file


def _copied(url: Url) -> BinaryIO:
    """Copy a file to one without a name; DataError, ExtraError, OSError."""
    file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    try:
        download(url, file)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def mapped(file: BinaryIO) -> memoryview:
    """Return the bytes of a file, which are read as they are used."""
    size = os.fstat(file.fileno()).st_size
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
