"""Files that sources read: existing, regular, and no larger than allowed."""

import os
from pathlib import Path
from typing import BinaryIO

from aisrv.sensors.image.frame import SourceError
from aisrv.values.printable import printable
from aisrv.values.regular_file import ANY_SIZE, opened_regular


def open_file(path: Path, largest: int = ANY_SIZE) -> BinaryIO:
    """Open a regular file of at most `largest` bytes for reading. Raises SourceError."""
    try:
        return opened_regular(path, largest)
    except OSError as error:
        raise SourceError(f"{printable(str(path))}: {error.strerror}") from None


def file_size(path: Path) -> int:
    """Return the size of a regular file in bytes. Raises SourceError."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size
