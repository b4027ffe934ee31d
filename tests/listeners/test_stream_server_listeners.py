"""What all listeners of the product owe: one table, and each class of a listener has its row in it."""

import ast
import pkgutil
import resource
import socket
import struct
from contextlib import suppress
from importlib import import_module
from inspect import isabstract
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import aisrv.addons.web
import aisrv.attach
from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer
from aisrv.addons.jacdac.bus.bus import JacdacBus
from aisrv.listeners import stream_server
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.listeners.turns import MESSAGES_A_TURN
from tests.support.benches.listeners import FRAME, LISTENERS, each_listener, end_of, listening, until_peers
from tests.support.oracles.process_resources import count_descriptors
from tests.support.oracles.step_watch import CallWatch
from tests.support.paths import ROOT, product_sources

SCANS = 300
"""Connections of a scan, more than the descriptors that the test leaves the process."""


def subclasses(base: Any) -> set[type[StreamServer]]:
    found: set[type[StreamServer]] = set(base.__subclasses__())
    return found.union(*map(subclasses, found))


def test_each_listener_of_the_product_has_a_row() -> None:
    for package in (aisrv.attach, aisrv.addons.web):
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
    if kind._make_room is not StreamServer._make_room:
        return  # its own tests say who makes room for whom
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
    async with listening(JacdacTcpServer, JacdacTcpServer(bus)) as place:
        await place.connect()
        await until_peers(place.server, 1)
        here = bus.join("here")
        while place.server.peers:
            for _ in range(1000):
                here.send(FRAME)
            await trio.sleep(0.001)
    assert "within 0.01 s; connection closed" in caplog.text


@each_listener
async def test_flood_of_the_smallest_messages_leaves_others_their_turns(
    kind: type[StreamServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = LISTENERS[kind]
    watch = CallWatch(monkeypatch, row.counted)
    messages = 5000
    async with listening(kind) as place:
        stream = await place.connect()

        async def read() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while await stream.receive_some(1 << 20):
                    pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            opening = row.opening.replace(b"PORT", str(place.port).encode())
            with watch.watching():
                await stream.send_all(opening + messages * row.message)
                while watch.count < messages:  # noqa: ASYNC110 - a listener does not tell
                    await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
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
