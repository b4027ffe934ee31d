"""Frames of a Jacdac bus over TCP: a length byte before each.

Length 0 is skipped; 0xFF is followed by 16 bits of length and a large frame, which is skipped too.
"""

from collections.abc import Iterator
from typing import Final

import trio

from aisrv.protocol.jacdac.frame import LARGEST_FRAME
from phy.jacdac.bus import BusPeer

LARGE: Final = 0xFF
LARGE_LENGTH_BYTES: Final = 2
CHUNK: Final = 65536


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


async def join_stream(stream: trio.SocketStream, peer: BusPeer) -> None:
    """Carry frames between a stream and the bus until the other side ends the stream.

    Raises what Trio and the system raise for a broken connection. The peer leaves the bus.
    """
    splitter = FrameSplitter()
    try:
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                while True:
                    await stream.send_all(b"".join(map(with_length, await peer.receive())))

            nursery.start_soon(send)
            while data := await stream.receive_some(CHUNK):
                for frame in splitter.feed(data):
                    peer.send(frame)
            nursery.cancel_scope.cancel()
    except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as errors:
        raise first_of(errors) from None
    finally:
        peer.leave()


def first_of(errors: BaseExceptionGroup[Exception]) -> BaseException:
    """Return the first error in a group of groups."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
