"""TCP, WebSocket, another hub and a serial port, each with a real socket or terminal of its own."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio_websocket import open_websocket_url

from aisrv.addons.jacdac.attach.serial_port import serve_serial_port
from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer, join_hub
from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.bus.bus import BusPeer, JacdacBus
from aisrv.addons.jacdac.bus.jdusb import Decoder, encode
from aisrv.addons.jacdac.wire.frame import ServicePacket, command_frame, multicast_frame, report_frame
from aisrv.addons.jacdac.wire.stream import with_length
from tests.support.benches.simulation import settle

ONE = report_frame(0x11, ServicePacket(1, 0x1101, b"one!"))
ALLOWED = "https://dashboard.example"
TWO = report_frame(0xFEFEFEFE, ServicePacket(1, 0x1101, b"\xfe\xfc\xfe\xfd\xf8" * 9))


async def take(peer: BusPeer) -> bytes:
    with trio.fail_after(60):
        (frame,) = await peer.receive()
    return frame


async def peers(bus: JacdacBus, count: int) -> None:
    """Wait until a bus has so many peers; it does not tell when one joins or leaves."""
    with trio.fail_after(60):
        while len(bus.peers) != count:  # noqa: ASYNC110
            await trio.sleep(0.005)


@asynccontextmanager
async def running(bus: JacdacBus, kind: str) -> AsyncIterator[tuple[trio.Nursery, int]]:
    server = JacdacTcpServer(bus) if kind == "tcp" else JacdacWebSocketServer(bus, [ALLOWED])
    async with trio.open_nursery() as nursery:
        _, port = await nursery.start(server.serve)
        yield nursery, port
        nursery.cancel_scope.cancel()


async def test_tcp_carries_frames_both_ways() -> None:
    bus = JacdacBus()
    peer = bus.join("here")
    async with running(bus, "tcp") as (_, port), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(with_length(ONE)[:5])
        await stream.send_all(with_length(ONE)[5:] + b"\0")
        assert await take(peer) == ONE
        peer.send(TWO)
        assert await stream.receive_some(1000) == with_length(TWO)
        await stream.aclose()
        await peers(bus, 1)


async def test_peer_that_does_not_read_holds_nobody_up() -> None:
    bus = JacdacBus()
    peer = bus.join("here")
    async with (
        running(bus, "tcp") as (_, port),
        await trio.open_tcp_stream("127.0.0.1", port) as deaf,
        await trio.open_tcp_stream("127.0.0.1", port) as other,
    ):
        await deaf.send_all(with_length(ONE))
        assert await take(peer) == ONE
        await other.send_all(with_length(ONE))
        assert await take(peer) == ONE
        for _ in range(100):
            peer.send(TWO)
        received = b""
        with trio.fail_after(60):
            while len(received) < 100 * len(with_length(TWO)):
                received += await other.receive_some(100_000)
        assert received.replace(with_length(TWO), b"") in (b"", with_length(ONE))


async def test_websocket_carries_frames_both_ways() -> None:
    bus = JacdacBus()
    peer = bus.join("here")
    async with (
        running(bus, "websocket") as (_, port),
        open_websocket_url(f"ws://127.0.0.1:{port}/") as socket,
    ):
        await socket.send_message("text is ignored")
        await socket.send_message(b"no frame")
        await socket.send_message(b"")
        await socket.send_message(ONE)
        assert await take(peer) == ONE
        peer.send(TWO)
        assert await socket.get_message() == TWO


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", [("Origin", "http://evil.example")], 403),
        ("/", [("Origin", "null")], 403),
        ("/", [("Origin", "https://microsoft.github.io")], 403),
        ("/", [("Origin", "https://dashboard.example.evil.example")], 403),
        ("/other", [], 404),
    ],
)
async def test_handshake_that_is_refused(path: str, headers: list[tuple[str, str]], status: int) -> None:
    assert await handshake(path, "localhost", *headers) == status


@pytest.mark.parametrize("host", ["rebound.example", "", "localhost.example"])
async def test_name_that_another_lets_resolve_to_this_machine_is_refused(host: str) -> None:
    assert await handshake("/", host) == 403


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1", "[::1]:8081", "192.0.2.7"])
async def test_names_that_are_allowed(host: str) -> None:
    assert await handshake("/", host) == 101


async def handshake(path: str, host: str, *headers: tuple[str, str]) -> int:
    """Send a handshake and return the status of its answer."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
        *(f"{name}: {value}" for name, value in headers),
    ]
    async with (
        running(JacdacBus(), "websocket") as (_, port),
        await trio.open_tcp_stream("127.0.0.1", port) as stream,
    ):
        await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        with trio.fail_after(60):
            return int((await stream.receive_some(1000)).split()[1])


@pytest.mark.parametrize("origin", ["http://localhost:8000", "http://127.0.0.1", ALLOWED, None])
async def test_origins_that_are_allowed(origin: str | None) -> None:
    headers = [] if origin is None else [(b"Origin", origin.encode())]
    async with (
        running(JacdacBus(), "websocket") as (_, port),
        open_websocket_url(f"ws://localhost:{port}/", extra_headers=headers) as socket,
    ):
        assert socket.path == "/"


async def test_hub_is_joined_again_after_it_went_away(free_port: int) -> None:
    bus, hub = JacdacBus(), JacdacBus()
    peer, far = bus.join("here"), hub.join("there")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join_hub, bus, "127.0.0.1", free_port)
        for _ in range(2):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as serving:
                    await serving.start(JacdacTcpServer(hub).serve, "127.0.0.1", free_port)
                    await peers(hub, 2)
                    await peers(bus, 2)  # a hub may know its peer before that has joined its own bus
                    peer.send(ONE)
                    assert await take(far) == ONE
                    far.send(TWO)
                    assert await take(peer) == TWO
                    scope.cancel()
            await peers(hub, 1)
        nursery.cancel_scope.cancel()


@pytest.fixture
def free_port() -> int:
    """Return a port that nobody listens on."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_serial_port_carries_frames_once_they_are_enabled() -> None:
    bus = JacdacBus()
    peer = bus.join("here")
    bridge = 0x18F61A4A
    async with trio.open_nursery() as nursery:
        path = await nursery.start(serve_serial_port, bus)
        port = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        decoder = Decoder()

        async def receive() -> list[bytes]:
            while True:
                with trio.fail_after(60):
                    await trio.lowlevel.wait_readable(port)
                found = decoder.feed(os.read(port, 4096))
                if found:
                    return found

        peer.send(ONE)
        await settle()
        os.write(port, b"log\n" + encode(multicast_frame(bridge, ServicePacket(0x3D, 0x81))))
        (answer,) = await receive()
        assert answer[12:16] == bytes.fromhex("003d8100")
        peer.send(TWO)
        assert await receive() == [TWO]
        os.write(port, encode(TWO)[:7])
        os.write(port, encode(TWO)[7:])
        assert await take(peer) == TWO
        os.write(port, encode(multicast_frame(bridge, ServicePacket(0x3D, 0x99))))
        (answer,) = await receive()
        assert answer[12:16] == bytes.fromhex("003dff00")
        os.close(port)
        nursery.cancel_scope.cancel()


@given(st.lists(st.binary(max_size=40)), st.lists(st.binary(min_size=16, max_size=60), max_size=4))
def test_serial_stream_of_anything_keeps_its_frames(noise: list[bytes], frames: list[bytes]) -> None:
    stream = b""
    for number, frame in enumerate(frames):
        text = noise[number % len(noise)] if noise else b""
        stream += text.replace(b"\xfe", b"?") + encode(frame)
    assert Decoder().feed(stream) == frames


def test_frame_of_endless_length_is_dropped() -> None:
    assert Decoder().feed(b"\xfe\xfc" + bytes(1000) + b"\xfe\xfd" + encode(ONE)) == [ONE]


def test_command_frame_is_no_bridge_command() -> None:
    from aisrv.addons.jacdac.bus.jdusb import Bridge

    frame = command_frame(7, [ServicePacket(1, 0x81)])
    assert Bridge().feed(encode(frame)) == ([frame], b"")
