"""How much memory a data set may take: what a file says of its sizes is compared before anything is read."""

from typing import Final

from aisrv.addons.evaluate.errors import DataError
from aisrv.values.printable import printable

LARGEST_DATA: Final = 2 << 30
"""Bytes of a data set in memory, unless `--max-memory` says more. What is mapped takes none."""

LABEL_BYTES: Final = 16
"""Of a label that is a number, with its class."""
FILE_BYTES: Final = 512
"""Of an example that is a file: its path, its name and its label."""


class Allowance:
    """The bytes that a data set may still take; `uri` is the data set's, for messages."""

    def __init__(self, uri: str, largest: int = LARGEST_DATA) -> None:
        self._uri = printable(uri)
        self._largest = largest
        self._left = largest

    def check(self, count: int) -> None:
        """Raise DataError unless so many bytes are left."""
        if count > self._left:
            taken = self._largest - self._left + count
            raise DataError(
                f"{self._uri}: it takes {taken:,} bytes of memory or more, at most "
                f"{self._largest:,} are given to data; --max-memory gives more, in a sweep's file max_memory"
            )

    def take(self, count: int) -> None:
        """Count bytes that are taken for good; DataError as `check`."""
        self.check(count)
        self._left -= count
