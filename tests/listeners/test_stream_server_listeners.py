"""What all listeners of the product owe: one table, and each class of a listener has its row in it."""

import ast
import pkgutil
import resource
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import isabstract
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import aisrv.attach
import aisrv.web
from aisrv.attach.jacdac.tcp import JacdacTcpServer
from aisrv.attach.jacdac.websocket import JacdacWebSocketServer
from aisrv.attach.serprog import SerprogServer
from aisrv.attach.spi_link import SpiLinkServer
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.attach.usbip.urbs import PendingUrbs
from aisrv.listeners import stream_server
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.listeners.turns import MESSAGES_A_TURN
from aisrv.monitor.web.controls import Controls
from aisrv.protocol.jacdac.frame import ServicePacket, report_frame
from aisrv.protocol.jacdac.stream import with_length
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from aisrv.web import server
from aisrv.web.hub import Hub
from aisrv.web.server import PageServer
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import MX25R6435F
from flash_server.chip.storage import MemoryStorage
from phy.jacdac.bus import JacdacBus
from phy.usb.bus import UsbBus
from tests.support.paths import ROOT, product_sources
from tests.support.process_resources import count_descriptors
from tests.support.spi_link_slaves import InvertingSlave
from tests.support.step_watch import StepWatch
from tests.support.usbip_host import request_import

GENEROUS = 60.0
SCANS = 300
"""Connections of a scan, more than the descriptors that the test leaves the process."""
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


def subclasses(base: Any) -> set[type[StreamServer]]:
    found: set[type[StreamServer]] = set(base.__subclasses__())
    return found.union(*map(subclasses, found))


def test_each_listener_of_the_product_has_a_row() -> None:
    for package in (aisrv.attach, aisrv.web):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    product = {
        kind
        for kind in subclasses(StreamServer)
        if kind.__module__.startswith("aisrv.") and not isabstract(kind)
    }
    assert product == set(LISTENERS)


ACCEPTING = {
    "accept",
    "open_tcp_listeners",
    "open_unix_listeners",
    "serve_listeners",
    "serve_tcp",
    "start_server",
}


def test_no_other_module_accepts_peers() -> None:
    """The preload server's sockets lie in a folder of its own user's, for the program that it starts."""
    accepting = set()
    for path, source in product_sources("|".join(ACCEPTING)).items():
        tree = ast.parse(source)
        if any(isinstance(node, ast.Attribute) and node.attr in ACCEPTING for node in ast.walk(tree)):
            accepting.add(path.relative_to(ROOT).as_posix())
    assert accepting == {"aisrv/listeners/stream_server.py", "aisrv/attach/preload/node_socket.py"}


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
async def listening(kind: type[StreamServer]) -> AsyncIterator[Listening]:
    """Serve; what the listener failed of is raised at the end."""
    place = Listening(LISTENERS[kind].make(), 0, [])
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


@each_listener
async def test_scan_of_connects_leaves_no_descriptor(kind: type[StreamServer]) -> None:
    async with listening(kind) as place:
        await wait_all_tasks_blocked()
        before = count_descriptors()
        for _ in range(SCANS):
            with socket.create_connection(("127.0.0.1", place.port)):
                pass
            await trio.lowlevel.checkpoint()
        await place.connect()  # accepted after them
        await until_peers(place.server, 1)
        assert count_descriptors() <= before + 2


@each_listener
async def test_resets_leave_no_descriptor(kind: type[StreamServer]) -> None:
    row = LISTENERS[kind]
    async with listening(kind) as place:
        await wait_all_tasks_blocked()
        before = count_descriptors()
        opening = row.opening.replace(b"PORT", str(place.port).encode())
        for cut in range(0, len(opening) + 1, max(1, len(opening) // 20)):
            with socket.create_connection(("127.0.0.1", place.port)) as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.sendall(opening[:cut])
            await wait_all_tasks_blocked()
        await until_peers(place.server, 0)
        assert count_descriptors() == before


@each_listener
async def test_peers_past_the_limit_are_turned_away(
    kind: type[StreamServer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream_server, "most_open_files", lambda: 128)
    async with listening(kind) as place:
        most = place.server.most_peers
        assert 16 <= most <= 17
        streams = [await place.connect() for _ in range(most)]
        await until_peers(place.server, most)
        assert await end_of(await place.connect()) == b""
        assert f"turned away: there are {most} already" in caplog.text
        await streams[0].aclose()
        await until_peers(place.server, most - 1)
        await place.connect()
        await until_peers(place.server, most)


def test_all_listeners_leave_the_process_half_of_its_descriptors() -> None:
    most = stream_server.most_open_files()
    assert most == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = [row.make().most_peers for row in LISTENERS.values()]
    assert sum(limits) <= most * 3 // 4


@each_listener
async def test_error_that_nobody_expected_ends_one_connection(
    kind: type[StreamServer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served = kind._serve_peer
    failing = [True]

    async def fail_once(self: Any, stream: PeerStream, peer: str) -> None:
        if failing.pop() if failing else False:
            raise KeyError("unforeseen")
        await served(self, stream, peer)

    monkeypatch.setattr(kind, "_serve_peer", fail_once)

    async def serve_two() -> None:
        async with listening(kind) as place:
            assert await end_of(await place.connect()) == b""
            await place.connect()
            await until_peers(place.server, 1)

    with pytest.raises(ExceptionGroup) as errors:
        await serve_two()
    assert errors.group_contains(Exception, match=f"the connection of {kind.PEER} 127.0.0.1:[0-9]+ failed")
    assert f"the connection of {kind.PEER}" in caplog.text


@pytest.mark.parametrize("method", [b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PRI"])
@each_listener
async def test_http_is_refused_at_its_first_bytes(kind: type[StreamServer], method: bytes) -> None:
    if kind.TAKES_HTTP:
        return  # its own tests say what it answers
    async with listening(kind) as place:
        stream = await place.connect()
        await stream.send_all((method + b" /")[:4])
        assert await end_of(stream) == b""


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_http_in_pieces_is_refused(cut: int, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(JacdacTcpServer) as place:
        stream = await place.connect()
        await stream.send_all(b"POST"[:cut])
        await wait_all_tasks_blocked(0.01)
        await stream.send_all(b"POST"[cut:])
        assert await end_of(stream) == b""
    assert "speaks HTTP, as pages in a browser do: refused" in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@each_listener
async def test_listening_beyond_this_machine_is_warned_of(
    kind: type[StreamServer], host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(LISTENERS[kind].make().serve, host)
        except OSError as error:
            pytest.skip(f"no address {host}: {error}")
        nursery.cancel_scope.cancel()
    assert f"a {kind.PEER} may come from other machines: listening on {host}" in caplog.text


async def test_peer_that_takes_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(StreamServer, "SEND_SECONDS", 0.01)
    bus = JacdacBus()
    row = replace(LISTENERS[JacdacTcpServer], make=lambda: JacdacTcpServer(bus))
    monkeypatch.setattr(f"{__name__}.LISTENERS", LISTENERS | {JacdacTcpServer: row})
    async with listening(JacdacTcpServer) as place:
        await place.connect()
        await until_peers(place.server, 1)
        here = bus.join("here")
        while place.server.peers:
            for _ in range(1000):
                here.send(FRAME)
            await trio.sleep(0.001)
    assert "within 0.01 s; connection closed" in caplog.text


class MessageWatch(StepWatch):
    """Counts the messages that a step takes."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._start = self.count

    def amount(self) -> float:
        return self.count - self._start


@each_listener
async def test_flood_of_the_smallest_messages_leaves_others_their_turns(
    kind: type[StreamServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = LISTENERS[kind]
    watch = MessageWatch()
    owner, name = row.counted
    original = getattr(owner, name)

    def counting(*arguments: Any, **named: Any) -> Any:
        watch.count += 1
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, counting)
    messages = 5000
    async with listening(kind) as place:
        stream = await place.connect()

        async def read() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while await stream.receive_some(1 << 20):
                    pass

        trio.lowlevel.add_instrument(watch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            opening = row.opening.replace(b"PORT", str(place.port).encode())
            await stream.send_all(opening + messages * row.message)
            while watch.count < messages:  # noqa: ASYNC110 - a listener does not tell
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        trio.lowlevel.remove_instrument(watch)
    assert 1 <= watch.largest.amount <= MESSAGES_A_TURN, str(watch.largest)


@each_listener
async def test_peers_that_flood_take_turns(kind: type[StreamServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pass of the loop one of them goes on, once each has had its first messages."""
    turns: list[int] = []
    server = LISTENERS[kind].make()
    async with trio.open_nursery() as nursery:

        async def flood(number: int) -> None:
            for _ in range(5):
                await server.turns.next()
                turns.append(number)

        for number in range(3):
            nursery.start_soon(flood, number)
    assert [sorted(turns[start : start + 3]) for start in range(0, 15, 3)] == [[0, 1, 2]] * 5
