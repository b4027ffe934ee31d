"""Where a trace's packets go: a file as they come, up to a limit, or a ring of the last ones, in memory."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, Self

import trio

from aisrv.values.whole_file import write_whole

SEGMENT_BYTES: Final = 4 << 20
"""Bytes after which a new segment begins, which can be read without those before."""
BLOCK_BYTES: Final = 1 << 16
"""Bytes of packets that are written to a file at a time."""
FLUSH_SECONDS: Final = 0.5
"""Seconds after which what has come is in the file: what a killed process loses at most."""
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

    async def keep_flushed(self) -> None:
        """Have what was written where it is kept soon, until cancelled."""
        await trio.sleep_forever()

    @abstractmethod
    def close(self) -> None:
        """End the trace; its file is whole."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSink(Sink):
    """A file that grows as packets come. Raises OSError if it cannot be made; a full disk ends the trace.

    With a `limit`, a number of bytes, the trace ends before the packet that would exceed it. Packets are
    written whole, as soon as `BLOCK_BYTES` have come, or by `flush`.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._limit = limit
        self._size = 0
        self._block: list[bytes] = []
        self._held = 0
        self._has_some = trio.Event()

    def begin_segment(self, start: bytes, open_slices: bytes) -> None:  # noqa: ARG002 - all is there
        self.write(start)

    def write(self, packet: bytes) -> None:
        if not self.recording:
            return
        self._size += len(packet)
        if self._limit is not None and self._size > self._limit:
            self.flush()
            self.recording = False
            logger.warning(
                "%s: the limit of %d bytes is reached; the trace ends here", self._path, self._limit
            )
            return
        self._block.append(packet)
        self._held += len(packet)
        if self._held >= BLOCK_BYTES:
            self.flush()
        elif len(self._block) == 1:
            self._has_some.set()

    def flush(self) -> None:
        """Write what has come; who reads the file, also when the process was killed, has it."""
        if not self._block or not self.recording:
            return
        rest = memoryview(b"".join(self._block))
        self._block.clear()
        self._held = 0
        try:
            while rest:  # as after a signal, a write may take less
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.recording = False
            _log_end(self._path, error)

    async def keep_flushed(self) -> NoReturn:
        """Write what has come after `FLUSH_SECONDS` at most; sleep while nothing comes."""
        while True:
            await self._has_some.wait()
            self._has_some = trio.Event()
            await trio.sleep(FLUSH_SECONDS)
            self.flush()

    def close(self) -> None:
        self.flush()
        with suppress(OSError):
            self._file.close()
        self.recording = False


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
