"""Frames of a Jacdac bus in a stream, such as a TCP connection: a length byte before each. No I/O.

Length 0 is skipped; 0xFF is followed by 16 bits of length and a large frame, which is skipped too.
"""

from collections.abc import Iterator
from typing import Final

from aisrv.addons.jacdac.wire.frame import FRAME_HEADER_BYTES, LARGEST_DATA, LARGEST_FRAME, SMALLEST_DATA

LARGE: Final = 0xFF
LARGE_LENGTH_BYTES: Final = 2

_SIZE_AT: Final = 2
"""Where a frame says how many bytes follow its header."""


class StreamError(ValueError):
    """A stream that carries something else than frames."""


class FrameSplitter:
    """Finds the frames in a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, data: bytes | bytearray) -> Iterator[bytes]:
        """Yield the frames that end in the next bytes of the stream; their CRC and packets are not checked.

        Raises StreamError as soon as a frame has another size than the stream says, or one that no frame has:
        what follows may be anything, such as the body of a request that a page in a browser chose.
        """
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        self._buffer += data
        buffer, at = bytes(self._buffer), 0
        del self._buffer[:]
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
            if length:
                _check(length, buffer[at + 1 : at + 1 + FRAME_HEADER_BYTES])
            end = at + 1 + length
            if end > len(buffer):
                break
            if length:
                yield buffer[at + 1 : end]
            at = end
        self._buffer += buffer[at:]


def _check(length: int, frame: bytes) -> None:
    """Raise StreamError where what has come of a frame does not fit the length before it."""
    data = length - FRAME_HEADER_BYTES
    if not SMALLEST_DATA <= data <= LARGEST_DATA:
        raise StreamError(f"sent a frame of {length} bytes, which no frame has")
    if len(frame) > _SIZE_AT and frame[_SIZE_AT] != data:
        says = FRAME_HEADER_BYTES + frame[_SIZE_AT]
        raise StreamError(f"sent a frame of {length} bytes that says it has {says}")


def with_length(frame: bytes) -> bytes:
    """Return a frame as it goes into the stream."""
    assert len(frame) <= LARGEST_FRAME  # noqa: S101 - the bus has no others
    return bytes((len(frame),)) + frame
