"""A Jacdac bus over TCP, as jacdac-ts and `devs devtools` speak it: peers join it, or it joins a hub."""

import logging
from typing import ClassVar, Final, NoReturn, Protocol

import trio

from aisrv.addons.jacdac.bus.bus import BusPeer, JacdacBus
from aisrv.addons.jacdac.wire.stream import FrameSplitter, StreamError, with_length
from aisrv.listeners.failures import Failures
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer, closing_connection
from aisrv.listeners.turns import Turns

logger = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts: twice as long after each, within these bounds."""

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


class JacdacTcpServer(StreamServer):
    """Joins each peer to the bus."""

    PEER: ClassVar[str] = "Jacdac peer"
    PROTOCOL_ERROR: ClassVar[type[Exception]] = StreamError

    def __init__(self, bus: JacdacBus) -> None:
        super().__init__()
        self._bus = bus

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        await join_stream(stream, self._bus.join(f"tcp:{peer}"))


async def join_hub(bus: JacdacBus, host: str, port: int) -> NoReturn:
    """Join a hub until cancelled, and again whenever the connection ends or fails."""
    pause = SHORTEST_PAUSE
    turns = Turns()
    with Failures(logger) as failures:
        while True:
            try:
                stream = await trio.open_tcp_stream(host, port)
            except (OSError, UnicodeError) as error:  # a name that no codec takes is a UnicodeError
                logger.info("no Jacdac hub at %s:%d: %s", host, port, error)
            else:
                logger.info("joined the Jacdac hub at %s:%d", host, port)
                pause = SHORTEST_PAUSE
                name = f"the Jacdac hub at {host}:{port}"
                with failures.contain(f"the connection to {name}"):
                    async with closing_connection(stream, name, StreamError, logger):
                        await join_stream(PeerStream(stream, turns), bus.join(f"hub:{host}:{port}"))
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
    raise AssertionError("it goes on until it is cancelled")
