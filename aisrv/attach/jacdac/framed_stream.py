"""A peer of a Jacdac bus at the other end of a stream."""

from typing import Final

import trio

from aisrv.device.failures import first_cause
from aisrv.protocol.jacdac.stream import FrameSplitter, with_length
from phy.jacdac.bus import BusPeer

CHUNK: Final = 65536


async def join_stream(stream: trio.SocketStream, peer: BusPeer) -> None:
    """Carry frames between a stream and the bus until the other side ends the stream.

    Raises what Trio and the system raise for a broken connection. The peer leaves the bus.
    """
    splitter = FrameSplitter()
    failure: BaseException | None = None
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
        failure = first_cause(errors)
    finally:
        peer.leave()
    if failure is not None:
        raise failure
