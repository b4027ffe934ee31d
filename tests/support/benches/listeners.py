"""All listeners of the product: how to make each, and a peer of it."""

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer
from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.bus.bus import JacdacBus
from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.addons.jacdac.wire.stream import with_length
from aisrv.addons.web import server
from aisrv.addons.web.device.controls import Controls
from aisrv.addons.web.hub import Hub
from aisrv.addons.web.server import PageServer
from aisrv.attach.serprog import SerprogServer
from aisrv.attach.spi_link import SpiLinkServer
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.attach.usbip.urbs import PendingUrbs
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import MX25R6435F
from flash_server.chip.storage import MemoryStorage
from phy.usb.bus import UsbBus
from tests.support.peers.spi_link_slaves import InvertingSlave
from tests.support.peers.usbip_host import request_import

GENEROUS = 60.0
UNLINK = struct.pack(">5I28x", 2, 7, 0x10001, 0, 0)
SPI_OPENING = bytes.fromhex("01000000 0000000a 4149535256535049 0001 03000000 00000003 302e30")
SPI_MESSAGE = struct.pack(">B3xIH", 5, 2, 0)
FRAME = report_frame(0x11, ServicePacket(1, 0x1101, b""))
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@dataclass(frozen=True)
class Listener:
    """A row: how to make a listener, and a flood of the smallest messages that it takes."""

    make: Callable[[], StreamServer]
    opening: bytes
    """What a peer sends first, PORT in place of the listener's."""
    message: bytes
    counted: tuple[Any, str]
    """The method, or function of a module, that is called for each message."""


LISTENERS: dict[type[StreamServer], Listener] = {
    UsbipServer: Listener(
        lambda: UsbipServer(export_all([UsbBus(aisrv_descriptors())])),
        request_import(),
        UNLINK,
        (PendingUrbs, "unlink"),
    ),
    SpiLinkServer: Listener(
        lambda: SpiLinkServer({"0.0": InvertingSlave()}), SPI_OPENING, SPI_MESSAGE, (PeerStream, "send_all")
    ),
    SerprogServer: Listener(
        lambda: SerprogServer(FlashChip(MX25R6435F, MemoryStorage(MX25R6435F.size))),
        b"",
        b"\0",
        (PeerStream, "send_all"),
    ),
    JacdacTcpServer: Listener(
        lambda: JacdacTcpServer(JacdacBus()), b"", with_length(FRAME), (JacdacBus, "forward")
    ),
    JacdacWebSocketServer: Listener(
        lambda: JacdacWebSocketServer(JacdacBus()),
        UPGRADE,
        bytes((0x82, 0x80 | len(FRAME), 0, 0, 0, 0)) + FRAME,
        (JacdacBus, "forward"),
    ),
}

SOCKET = UPGRADE.replace(b"GET /", b"GET /socket").replace(b"localhost", b"localhost:PORT")
HELLO = b'{"token":"token","see":null}'
LISTENERS[PageServer] = Listener(
    lambda: PageServer(Hub([]), Controls({}), "token"),
    SOCKET + bytes((0x81, 0x80 | len(HELLO), 0, 0, 0, 0)) + HELLO,
    bytes((0x81, 0x80 | len(HELLO), 0, 0, 0, 0)) + HELLO,
    (server, "_message"),
)

each_listener = pytest.mark.parametrize("kind", LISTENERS, ids=lambda kind: kind.__name__)
"""A test for each listener; another one checks that the product has no others."""


@dataclass
class Listening:
    """A listener that serves."""

    server: StreamServer
    port: int
    streams: list[trio.SocketStream]

    async def connect(self) -> trio.SocketStream:
        """A peer, which leaves at the end of the test."""
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return self.streams[-1]


@asynccontextmanager
async def listening(kind: type[StreamServer], made: StreamServer | None = None) -> AsyncIterator[Listening]:
    """Serve by a new listener, or one that is there; what it failed of is raised at the end."""
    place = Listening(made or LISTENERS[kind].make(), 0, [])
    try:
        with trio.fail_after(GENEROUS):
            async with trio.open_nursery() as nursery:
                _, place.port = await nursery.start(place.server.serve)
                yield place
                nursery.cancel_scope.cancel()
    finally:
        for stream in place.streams:
            stream.socket.close()


async def until_peers(server: StreamServer, count: int) -> None:
    while server.peers != count:
        await wait_all_tasks_blocked(0.001)


async def end_of(stream: trio.SocketStream) -> bytes:
    """All that a listener says before it ends the connection."""
    said = b""
    with suppress(trio.BrokenResourceError):
        while data := await stream.receive_some(65536):
            said += data
    return said
