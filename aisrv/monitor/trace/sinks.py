"""Where a trace's packets go: a file as they come, up to a limit, or a ring of the last ones, in memory."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from aisrv.values.whole_file import write_whole

SEGMENT_BYTES: Final = 4 << 20
"""Bytes after which a new segment begins, which can be read without those before."""
_SEGMENTS_OF_RING: Final = 4
_SMALLEST_SEGMENT: Final = 1 << 14

logger = logging.getLogger(__name__)


class Sink(ABC):
    """Takes packets in segments; a context manager closes it."""

    segment_bytes = SEGMENT_BYTES

    def __init__(self) -> None:
        self.recording = True
        """Whether what comes is still kept."""

    @abstractmethod
    def begin_segment(self, start: bytes, open_slices: bytes) -> None:
        """Begin a segment with the packets that it starts with.

        `open_slices` are packets that matter only where the segment before is not there.
        """

    @abstractmethod
    def write(self, packet: bytes) -> None:
        """Add a packet."""

    @abstractmethod
    def close(self) -> None:
        """End the trace; its file is whole."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSink(Sink):
    """A file that grows as packets come. Raises OSError if it cannot be made; a full disk ends the trace.

    With a `limit`, a number of bytes, the trace ends before the packet that would exceed it.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("wb")
        self._limit = limit
        self._size = 0

    def begin_segment(self, start: bytes, open_slices: bytes) -> None:  # noqa: ARG002 - all is there
        self.write(start)

    def write(self, packet: bytes) -> None:
        if not self.recording:
            return
        self._size += len(packet)
        if self._limit is not None and self._size > self._limit:
            self.recording = False
            logger.warning(
                "%s: the limit of %d bytes is reached; the trace ends here", self._path, self._limit
            )
            return
        try:
            self._file.write(packet)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        if self.recording:
            try:
                self._file.flush()
            except OSError as error:
                self._fail(error)
        with suppress(OSError):  # of the rest in its buffer
            self._file.close()
        self.recording = False

    def _fail(self, error: OSError) -> None:
        self.recording = False
        _log_end(self._path, error)


def _log_end(path: Path, error: OSError) -> None:
    logger.error("%s: %s; the trace ends here", path, error.strerror)


class _Segment:
    __slots__ = ("open_slices", "packets", "size", "start")

    def __init__(self, start: bytes, open_slices: bytes) -> None:
        self.start = start
        self.open_slices = open_slices
        self.packets: list[bytes] = []
        self.size = len(start) + len(open_slices)


class MemorySink(Sink):
    """The last packets, in memory, of `size` bytes.

    Whole segments are dropped, of which the ring has four: at the end it holds three quarters of `size` at
    least, where so much has come.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.segment_bytes = max(_SMALLEST_SEGMENT, min(SEGMENT_BYTES, size // _SEGMENTS_OF_RING))
        self._size = size
        self._segments: deque[_Segment] = deque()
        self._held = 0

    def begin_segment(self, start: bytes, open_slices: bytes) -> None:
        if not self.recording:
            return
        self._segments.append(_Segment(start, open_slices))
        self._held += self._segments[-1].size
        self._drop()

    def write(self, packet: bytes) -> None:
        if not self.recording:
            return
        segment = self._segments[-1]
        segment.packets.append(packet)
        segment.size += len(packet)
        self._held += len(packet)
        if self._held > self._size:
            self._drop()

    def close(self) -> None:
        self.recording = False

    def take(self) -> list[bytes]:
        """Take the trace out, in pieces; nothing is left."""
        pieces = []
        for number, segment in enumerate(self._segments):
            pieces += [segment.start, *([] if number else [segment.open_slices]), *segment.packets]
        self._segments.clear()
        return pieces

    def _drop(self) -> None:
        while self._held > self._size and len(self._segments) > 1:
            self._held -= self._segments.popleft().size


class RingSink(MemorySink):
    """The last packets, in memory; the file is written when the trace ends.

    Raises OSError if it cannot be made.
    """

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(size)
        self._path = path
        write_whole(path, ())  # what cannot be written is known at once

    def close(self) -> None:
        if not self.recording:
            return
        super().close()
        try:
            write_whole(self._path, self.take())
        except OSError as error:
            _log_end(self._path, error)
