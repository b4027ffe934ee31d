"""Connections to a Jacdac bus for fuzzing: frames or any bytes go out, and what comes is always read."""

import os
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage

from aisrv.addons.jacdac.bus.jdusb import BRIDGE_CLASS, BridgeCommand, Decoder, encode
from aisrv.addons.jacdac.wire.frame import Frame, FrameError, ServicePacket, multicast_frame
from aisrv.addons.jacdac.wire.stream import FrameSplitter, with_length
from tests.support.peers.jacdac_client import CLIENT

KEPT: Final = 4096
"""Frames that a link keeps until they are asked for."""
HANDSHAKE: Final = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Codec(Protocol):
    """How a wire carries frames."""

    def encode(self, frame: bytes) -> bytes: ...

    def decode(self, data: bytes) -> Iterator[bytes]: ...


class Lengths:
    """A length byte before each frame: TCP, and hubs."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()

    def encode(self, frame: bytes) -> bytes:
        return with_length(frame)

    def decode(self, data: bytes) -> Iterator[bytes]:
        yield from self._splitter.feed(data)


class Messages:
    """A binary message a frame."""

    def __init__(self) -> None:
        self._connection = Connection(ConnectionType.CLIENT)

    def encode(self, frame: bytes) -> bytes:
        return masked(frame)

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._connection.receive_data(data)
        for event in self._connection.events():
            if isinstance(event, BytesMessage):
                yield bytes(event.data)


class Jdusb:
    """Escapes around each frame."""

    def __init__(self) -> None:
        self._decoder = Decoder()

    def encode(self, frame: bytes) -> bytes:
        return encode(frame)

    def decode(self, data: bytes) -> Iterator[bytes]:
        yield from self._decoder.feed(data)


def masked(data: bytes, first: int = 0x82) -> bytes:
    """A client's message (RFC 6455, section 5.2), with a mask of zeros."""
    size = len(data)
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4) + data
    length = b"\xfe" + struct.pack(">H", size) if size < 65536 else b"\xff" + struct.pack(">Q", size)
    return bytes((first,)) + length + bytes(4) + data


class Link:
    """One connection, which gives `BusClient` what it needs of a peer of the bus."""

    def __init__(self, stream: trio.abc.Stream, codec: Codec, device: int) -> None:
        self._stream = stream
        self._codec = codec
        self._devices = device.to_bytes(8, "little"), CLIENT.to_bytes(8, "little")
        self._frames: deque[bytes] = deque(maxlen=KEPT)
        self._arrived = trio.Event()
        self._sending = trio.Lock()
        self._out, self._waiting = trio.open_memory_channel[bytes](1000)
        self.over: Final = trio.Event()
        """Set once the other side has ended the connection."""

    @property
    def ended(self) -> bool:
        return self.over.is_set()

    def send(self, frame: bytes) -> None:
        """Send a frame soon."""
        with suppress(trio.BrokenResourceError):
            self._out.send_nowait(self._codec.encode(frame))

    def encode(self, frame: bytes) -> bytes:
        return self._codec.encode(frame)

    async def raw(self, data: bytes) -> None:
        """Send any bytes."""
        async with self._sending:
            await self._stream.send_all(data)

    async def receive(self) -> list[bytes]:
        """Wait for frames from or to the device or the client, and return them."""
        while not self._frames:
            assert not self.ended, "the connection ended"
            await self._arrived.wait()
        found = list(self._frames)
        self._frames.clear()
        return found

    def forget(self) -> None:
        """Drop the frames that came."""
        self._frames.clear()

    async def run(self) -> None:
        """Send what waits, and take what comes, until the connection ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                while data := await self._stream.receive_some(65536):
                    for frame in self._codec.decode(bytes(data)):
                        self._take(frame)
            self.over.set()
            self._arrived.set()
            nursery.cancel_scope.cancel()

    def _take(self, frame: bytes) -> None:
        if frame[4:12] not in self._devices:
            return
        with suppress(FrameError):
            Frame.from_bytes(frame)
            self._frames.append(frame)
            self._arrived.set()
            self._arrived = trio.Event()

    async def _send(self) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in self._waiting:
                await self.raw(data)

    async def close(self, *, reset: bool = False) -> None:
        if reset and isinstance(self._stream, trio.SocketStream):
            self._stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(self._stream)


@asynccontextmanager
async def read_link(link: Link) -> AsyncIterator[Link]:
    """Read a link for as long as the block lasts."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        try:
            yield link
        finally:
            await link.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def read(connect: Callable[[], Awaitable[Link]]) -> AsyncIterator[Link]:
    """Connect, and read the link for as long as the block lasts."""
    async with read_link(await connect()) as link:
        yield link


async def tcp_link(port: int, device: int) -> Link:
    return Link(await trio.open_tcp_stream("127.0.0.1", port), Lengths(), device)


async def websocket_link(port: int, device: int) -> Link:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all(HANDSHAKE)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += await stream.receive_some(1)
    assert answer.startswith(b"HTTP/1.1 101 "), answer
    return Link(stream, Messages(), device)


async def serial_link(path: str, device: int) -> Link:
    link = Link(trio.lowlevel.FdStream(os.open(path, os.O_RDWR | os.O_NOCTTY)), Jdusb(), device)
    await link.raw(enabled())
    return link


def enabled() -> bytes:
    """What has the serial port carry the frames of the bus, after whatever came before."""
    enable = multicast_frame(BRIDGE_CLASS, ServicePacket(0x3D, BridgeCommand.ENABLE_PACKETS))
    return b"\xfe\xfd" + encode(enable)


async def hub_link(listener: trio.SocketListener, device: int) -> Link:
    return Link(await listener.accept(), Lengths(), device)
