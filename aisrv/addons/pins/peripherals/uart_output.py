"""Where the bytes go that a UART receives: a file, or the log, line by line."""

import logging
from pathlib import Path
from typing import Final, Self

from aisrv.values.printable import printable

logger = logging.getLogger(__name__)

LONGEST_LINE: Final = 200
"""Bytes of a line in the log; longer ones are cut."""


class UartLines:
    """Logs each line, with the name of the UART before it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._line = bytearray()

    def add(self, byte: int) -> None:
        """Take a byte; a line ends with CR, LF or both."""
        ends = byte in b"\r\n"
        if not ends:
            self._line.append(byte)
        if self._line and (ends or len(self._line) == LONGEST_LINE):
            logger.info("%s: %s", self._name, printable(bytes(self._line).decode(errors="replace")))
            self._line.clear()


class UartFile:
    """A file of all bytes so far; a context manager closes it. What cannot be written ends it, in the log."""

    def __init__(self, name: str, path: Path) -> None:
        """Create the file. Raises OSError."""
        self._name = name
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._is_open = True

    def add(self, byte: int) -> None:
        """Write a byte."""
        if self._is_open:
            try:
                self._file.write(bytes((byte,)))
            except OSError as error:
                self._is_open = False
                logger.error("%s: %s: %s; nothing more is written", self._name, self._path, error.strerror)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
