"""Where in a file the examples of an array lie, for processes that map the file themselves."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from aisrv.addons.evaluate.errors import DataError
from aisrv.values.regular_file import ANY_SIZE, open_regular


class MappedRows(NamedTuple):
    """An array of a file that is stored as it is."""

    path: Path
    offset: int
    """Byte of the file at which its elements begin."""


@contextmanager
def opened(rows: MappedRows | None) -> Iterator[int]:
    """Open the file with rows for reading, and give its descriptor; -1 for None. Raises DataError."""
    if rows is None:
        yield -1
        return
    try:
        descriptor = open_regular(rows.path, ANY_SIZE)
    except OSError as error:
        raise DataError(f"{rows.path}: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
