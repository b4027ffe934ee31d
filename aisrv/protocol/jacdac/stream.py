"""Frames of a Jacdac bus in a stream, such as a TCP connection: a length byte before each. No I/O.

Length 0 is skipped; 0xFF is followed by 16 bits of length and a large frame, which is skipped too.
"""

from collections.abc import Iterator
from typing import Final

from aisrv.protocol.jacdac.frame import LARGEST_FRAME

LARGE: Final = 0xFF
LARGE_LENGTH_BYTES: Final = 2


class FrameSplitter:
    """Finds the frames in a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that end in the next bytes of the stream; their content is not checked."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        self._buffer += data
        buffer, at = bytes(self._buffer), 0
        while at < len(buffer):
            length = buffer[at]
            if length == LARGE:
                start = at + 1 + LARGE_LENGTH_BYTES
                if start > len(buffer):
                    break
                end = start + int.from_bytes(buffer[at + 1 : start], "little")
                self._skip = max(end - len(buffer), 0)
                at = min(end, len(buffer))
                continue
            end = at + 1 + length
            if end > len(buffer):
                break
            if length:
                yield buffer[at + 1 : end]
            at = end
        del self._buffer[:at]


def with_length(frame: bytes) -> bytes:
    """Return a frame as it goes into the stream."""
    assert len(frame) <= LARGEST_FRAME  # noqa: S101 - the bus has no others
    return bytes((len(frame),)) + frame
