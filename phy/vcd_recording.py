"""Recordings as VCD (Value Change Dump, IEEE 1364, section 18); GTKWave and sigrok read them."""

import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Self

from vcd import VCDWriter


class VcdRecording(ABC):
    """A VCD file in nanoseconds; a context manager closes it.

    Raises OSError if the file cannot be made. One that cannot be written later, as on a full disk, ends the
    recording with an error in the log, and nothing else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("w", encoding="ascii")
        self._writer = VCDWriter(self._file, timescale="1 ns", version="aisrv", date="", check_values=False)
        self._recording = True

    @abstractmethod
    def close(self) -> None:
        """End the recording; what comes later is not recorded."""

    def flush(self) -> None:
        if self._recording:
            try:
                self._writer.flush()
            except OSError as error:
                self._fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, nanoseconds: int) -> None:
        if self._recording:
            try:
                self._writer.close(nanoseconds)
                self._file.close()
            except OSError as error:
                self._fail(error)
            self._recording = False

    def _fail(self, error: OSError) -> None:
        self._recording = False
        logger = logging.getLogger(type(self).__module__)
        logger.error("%s: %s; the recording ends here", self._path, error.strerror)
        with suppress(OSError):  # of the rest in its buffer
            self._file.close()
