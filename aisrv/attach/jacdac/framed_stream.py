"""A peer of a Jacdac bus at the other end of a stream."""

from typing import Final, Protocol

import trio

from aisrv.protocol.jacdac.stream import FrameSplitter, with_length
from phy.jacdac.bus import BusPeer

CHUNK: Final = 1024
"""Bytes that are taken in one turn: 60 of the smallest frames."""


class ByteStream(Protocol):
    """Stream of a listener's peer, or one to a hub."""

    async def receive_some(self, most: int, /) -> bytes | bytearray:
        """Receive 1 to `most` bytes, or none at the end of the stream."""

    async def send_all(self, data: bytes, /) -> None: ...


async def join_stream(stream: ByteStream, peer: BusPeer) -> None:
    """Carry frames between a stream and the bus until the other side ends the stream.

    Raises, in an exception group, StreamError for bytes that are no frame, and the stream's own errors for a
    broken connection. The peer leaves the bus.
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
    finally:
        peer.leave()
