"""HTTP and WebSocket as the bytes that cross: what is answered and refused, and that the listener goes on."""

import base64
import hashlib
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.bus.bus import BusPeer, JacdacBus
from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.listeners import websocket
from aisrv.listeners.websocket import LARGEST_MESSAGE, LARGEST_REQUEST

GENEROUS = 60.0
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
"""The sample of RFC 6455, section 1.3, with the answer that stands there."""
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
HEAD = {
    b"Host": b"localhost",
    b"Upgrade": b"websocket",
    b"Connection": b"keep-alive, Upgrade",
    b"Sec-WebSocket-Key": KEY,
    b"Sec-WebSocket-Version": b"13",
}
FRAME = report_frame(0x11, ServicePacket(1, 0x1101, b"one!"))


def request(changed: dict[bytes, bytes | None] | None = None, line: bytes = b"GET / HTTP/1.1") -> bytes:
    headers = {**HEAD, **(changed or {})}
    lines = [line, *(name + b": " + value for name, value in headers.items() if value is not None)]
    return b"\r\n".join([*lines, b"", b""])


def masked(data: bytes, first: int = 0x82) -> bytes:
    """A client's frame (RFC 6455, section 5.2), with a mask of 1, 2, 3, 4."""
    size = len(data)
    if size < 126:
        length = bytes((0x80 | size,))
    else:
        length = b"\xfe" + struct.pack(">H", size) if size < 65536 else b"\xff" + struct.pack(">Q", size)
    mask = bytes((1, 2, 3, 4))
    return bytes((first,)) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


class Serving:
    """A WebSocket server on a bus, and its peers."""

    def __init__(self, server: JacdacWebSocketServer, here: BusPeer, port: int) -> None:
        self.server, self.here, self.port = server, here, port

    async def say(self, *pieces: bytes) -> bytes:
        """All that the server answers to a peer that sends these pieces and reads to the end."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            got = b""
            with suppress(trio.BrokenResourceError):
                for piece in pieces:
                    await stream.send_all(piece)
                while data := await stream.receive_some(65536):
                    got += data
            return got

    async def works(self) -> None:
        """A peer is served: its frame comes to the bus."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await stream.send_all(request() + masked(FRAME))
            assert await self.here.receive() == [FRAME]


@asynccontextmanager
async def serving() -> AsyncIterator[Serving]:
    """Serve; a failure that is contained is raised at the end."""
    bus = JacdacBus()
    server = JacdacWebSocketServer(bus)
    with trio.fail_after(GENEROUS):
        async with trio.open_nursery() as nursery:
            _, port = await nursery.start(server.serve)
            yield Serving(server, bus.join("here"), port)
            nursery.cancel_scope.cancel()


def status(answer: bytes) -> int:
    return int(answer.split()[1])


async def test_upgrade_is_answered_as_the_standard_says() -> None:
    digest = hashlib.sha1(KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
    assert base64.b64encode(digest) == ACCEPT
    async with serving() as place:
        answer = await place.say(request(), masked(struct.pack(">H", 1000), 0x88))
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-accept: " + ACCEPT in head.lower().replace(ACCEPT.lower(), ACCEPT)
    assert rest == b"\x88\x02" + struct.pack(">H", 1000)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (request({b"Origin": b"http://\xff.example"}), 403),
        (request({b"Host": b"\x80localhost"}), 403),
        (request({b"X": b"\xe9"}), 101),
        (request({b"Sec-WebSocket-Key": b"\xff" * 24}), 400),
        (request({b"Sec-WebSocket-Key": b"dGhl"}), 400),
        (request({b"Sec-WebSocket-Key": None}), 400),
        (request({b"Sec-WebSocket-Version": b"12"}), 426),
        (request({b"Upgrade": b"h2c"}), 426),
        (request({b"Connection": b"close"}), 426),
        (request(line=b"GET //[ HTTP/1.1"), 404),
        (request(line=b"GET http://[ HTTP/1.1"), 404),
        (request(line=b"GET /?x=//[ HTTP/1.1"), 101),
        (request(line=b"GET /\xff HTTP/1.1"), 400),
        (request(line=b"POST / HTTP/1.1"), 426),
        (request({b"Content-Length": b"5"}), 400),
        (request({b"Host": None}), 400),
        (request({b"Host": b"["}), 403),
        (request({b"X: y\r\nHost": b"localhost"}), 400),
        (request({b"Origin": b"http://localhost\r\nOrigin: http://a.example"}), 400),
        (b"\0" * 100 + b"\r\n\r\n", 400),
        (b"GET /" + b"a" * LARGEST_REQUEST, 400),
    ],
)  # fmt: skip
async def test_request_is_answered(sent: bytes, answer: int) -> None:
    async with serving() as place:
        close = [masked(b"", 0x88)] if answer == 101 else []
        assert status(await place.say(sent, *close)) == answer
        await place.works()


async def test_refusal_says_why_and_ends_the_connection() -> None:
    async with serving() as place:
        answer = await place.say(request({b"Origin": b"http://evil.example"}))
    assert answer.endswith(
        b"\r\n\r\npages of 'http://evil.example' are not allowed; --jacdac-origin allows those of an origin\n"
    )


async def test_request_that_comes_byte_by_byte_is_taken() -> None:
    async with serving() as place:
        pieces = [bytes((byte,)) for byte in request() + masked(b"", 0x88)]
        assert status(await place.say(*pieces)) == 101


@pytest.mark.parametrize("sent", [b"", b"GET / HT", request()[:-1]])
def test_request_that_does_not_come_ends_after_its_time(
    sent: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "REQUEST_SECONDS", 0.01)

    async def wait() -> bytes:
        async with serving() as place:
            return await place.say(sent)

    assert trio.run(wait) == b""
    assert "sent no request within 0.01 s; connection closed" in caplog.text


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x82\x00", 1002),  # a client masks
        (masked(b"", 0xC2), 1002),  # a reserved bit
        (masked(b"", 0x83), 1002),  # a reserved opcode
        (masked(b"x" * 126, 0x89), 1002),  # a control frame of more than 125 bytes
        (masked(b"", 0x09), 1002),  # a control frame in pieces
        (masked(b"", 0x80), 1002),  # a piece of nothing
        (masked(b"\xff", 0x81), 1007),  # text that is none
        (masked(b"\x03", 0x88), 1002),  # half a close code
        (masked(b"x" * (LARGEST_MESSAGE + 1)), 1009),
        (masked(b"x" * LARGEST_MESSAGE, 0x02) + masked(b"x", 0x80), 1009),
        (masked(b"", 0x81) + masked(b"x" * (LARGEST_MESSAGE + 1), 0x81), 1009),
    ],
)
async def test_peer_that_breaks_the_protocol_is_told_the_code(sent: bytes, code: int) -> None:
    async with serving() as place:
        answer = (await place.say(request() + sent)).partition(b"\r\n\r\n")[2]
        assert answer[0] == 0x88
        assert int.from_bytes(answer[2:4], "big") == code
        await place.works()


async def test_largest_message_is_taken() -> None:
    async with serving() as place:
        sent = request() + masked(b"x" * LARGEST_MESSAGE) + masked(b"", 0x88)
        assert (await place.say(sent)).partition(b"\r\n\r\n")[2][:2] == b"\x88\x00"


async def test_ping_is_answered_and_message_in_pieces_is_one() -> None:
    async with serving() as place:
        sent = masked(FRAME[:5], 0x02) + masked(b"here?", 0x89) + masked(FRAME[5:], 0x80) + masked(b"", 0x88)
        assert (await place.say(request() + sent)).partition(b"\r\n\r\n")[2] == b"\x8a\x05here?\x88\x00"
        assert await place.here.receive() == [FRAME]


async def test_reset_while_the_answer_goes_out_ends_one_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as place:
        for _ in range(50):
            stream = await trio.open_tcp_stream("127.0.0.1", place.port)
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.send_all(request({b"Origin": b"http://evil.example"}))
            await stream.aclose()
        await place.works()


@given(st.lists(st.binary(max_size=200), max_size=5), st.booleans())
@settings(deadline=None, max_examples=50)
def test_bytes_of_any_kind_end_their_own_connection_at_most(pieces: list[bytes], upgraded: bool) -> None:
    async def send() -> None:
        async with serving() as place:
            async with await trio.open_tcp_stream("127.0.0.1", place.port) as stream:
                with suppress(trio.BrokenResourceError):
                    for piece in [request()] * upgraded + pieces:
                        await stream.send_all(piece)
            await place.works()

    trio.run(send)


def test_peer_may_be_silent_once_it_is_upgraded() -> None:
    async def wait() -> None:
        bus = JacdacBus()
        server = JacdacWebSocketServer(bus)
        async with trio.open_nursery() as nursery:
            _, port = await nursery.start(server.serve)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(request())
            assert status(bytes(await stream.receive_some(1000))) == 101
            here = bus.join("here")
            while len(bus.peers) < 2:
                await wait_all_tasks_blocked()
            clock.jump(3600)
            here.send(FRAME)
            assert bytes(await stream.receive_some(1000))[2:] == FRAME
            await stream.aclose()
            nursery.cancel_scope.cancel()

    clock = MockClock()
    trio.run(wait, clock=clock)
