"""The SPI link server: what programs clock, and peers that lie, stop or go away."""

import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from aisrv.attach import spi_link as spi_link_server
from aisrv.attach.spi_link import Connection, SpiLinkServer
from aisrv.protocol.spi_link import MAX_BODY, MAX_MESSAGE, FrameKind, SpiLinkError
from phy.spi.bus import SpiPort, SpiTransfer, Timing
from tests.support.peers import spi_link_slaves
from tests.support.peers.spi_link_slaves import InvertingSlave

HELLO = bytes.fromhex("01000000 0000000a 4149535256535049 0001")
SLAVES = bytes.fromhex("02000000 00000007 0001 01 03302e30")
OPEN = bytes.fromhex("03000000 00000003 302e30")
OPENED = bytes.fromhex("04000000 00000008 00000000 02faf080")
UNSTATED = 0xFFFFFFFF


def message(*transfers: tuple[bytes, int], clock: int = UNSTATED) -> bytes:
    """A MESSAGE frame, put together by hand; each transfer is bytes and whether chip select goes high."""
    heads = [struct.pack(">5IB3x", len(mosi), clock, *[UNSTATED] * 3, high) for mosi, high in transfers]
    body = struct.pack(">H", len(transfers)) + b"".join(heads) + b"".join(mosi for mosi, _ in transfers)
    return struct.pack(">B3xI", 5, len(body)) + body


def done(miso: bytes, error: int = 0) -> bytes:
    return struct.pack(">B3xIi", 6, 4 + len(miso), error) + miso


class Peer:
    """A program at the other end of the link, byte by byte."""

    streams: ClassVar[list[trio.SocketStream]] = []

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.streams.append(stream)

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> "Peer":
        return cls(await trio.open_tcp_stream(*address))

    @classmethod
    async def opened(cls, address: tuple[str, int]) -> "Peer":
        peer = await cls.connect(address)
        assert await peer.ask(HELLO, len(SLAVES)) == SLAVES
        assert await peer.ask(OPEN, len(OPENED)) == OPENED
        return peer

    async def ask(self, data: bytes, size: int) -> bytes:
        await self.stream.send_all(data)
        answer = b""
        while len(answer) < size:
            piece = await self.stream.receive_some(size - len(answer))
            assert piece, f"the server closed the connection after {answer!r}"
            answer += piece
        return answer

    async def ended(self) -> bytes:
        data = b""
        with suppress(trio.BrokenResourceError):
            while piece := await self.stream.receive_some():
                data += piece
        return data

    async def works(self) -> None:
        assert await self.ask(message((b"\1\2", 1)), 14) == done(b"\xfe\xfd")


@asynccontextmanager
async def serving(slaves: Mapping[str, SpiPort]) -> AsyncIterator[tuple[str, int]]:
    """A server; then all peers are closed."""
    try:
        async with spi_link_slaves.serving(slaves) as address:
            yield address
    finally:
        for stream in Peer.streams:
            stream.socket.close()
        Peer.streams.clear()


def in_mock_time(test: Callable[[], Awaitable[None]]) -> float:
    """Run in a loop whose time jumps when all wait; the seconds that it took there."""
    clock = MockClock(autojump_threshold=0)
    trio.run(test, clock=clock)
    return clock.current_time()


async def assert_serving(address: tuple[str, int]) -> None:
    peer = await Peer.opened(address)
    await peer.works()
    await peer.stream.aclose()


async def test_transfers_reach_the_slave_as_they_were_stated() -> None:
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        peer = await Peer.opened(address)
        frame = message((b"\1", 0), (b"\2\3", 1), clock=9)
        assert await peer.ask(frame, 15) == done(b"\xfe\xfd\xfc")
        stated = bytearray(message((b"\4", 1)))
        stated[14:30] = struct.pack(">4I", 5, 6, 7, 8)
        assert await peer.ask(bytes(stated), 13) == done(b"\xfb")
    assert slave.messages == [
        [SpiTransfer(b"\1", False, 9), SpiTransfer(b"\2\3", True, 9)],
        [SpiTransfer(b"\4", True, 5, Timing(6, 7, 8))],
    ]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024, 70_000, MAX_MESSAGE])
async def test_message_of_any_size(size: int) -> None:
    slave = InvertingSlave()
    data = bytes(range(251)) * (size // 251 + 1)
    async with serving({"0.0": slave}) as address:
        peer = await Peer.opened(address)
        answer = await peer.ask(message((data[:size], 1)), 12 + size)
    assert slave.mosi == [data[:size]]
    assert answer == done(bytes(255 - byte for byte in data[:size]))


async def test_message_of_no_transfers() -> None:
    async with serving({"0.0": InvertingSlave()}) as address:
        peer = await Peer.opened(address)
        assert await peer.ask(message(), 12) == done(b"")


async def test_frames_in_any_pieces_and_many_at_once() -> None:
    async with serving({"0.0": InvertingSlave()}) as address:
        peer = await Peer.connect(address)
        for byte in HELLO + OPEN + message((b"\1\2", 1)):
            await peer.stream.send_all(bytes([byte]))
        assert await peer.ask(b"", 45) == SLAVES + OPENED + done(b"\xfe\xfd")
        assert await peer.ask(message((b"\0", 1)) * 50, 13 * 50) == done(b"\xff") * 50


async def test_unknown_slave_and_then_a_known_one(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({"0.0": InvertingSlave()}) as address:
        peer = await Peer.connect(address)
        await peer.ask(HELLO, len(SLAVES))
        unknown = bytes.fromhex("03000000 00000003 302e31")
        assert await peer.ask(unknown, 16) == bytes.fromhex("04000000 00000008 00000002 00000000")
        assert await peer.ask(OPEN, 16) == OPENED
        await peer.works()
    assert "slave '0.1', which does not exist" in caplog.text


async def test_programs_share_a_slave_and_have_others() -> None:
    first, second = InvertingSlave(), InvertingSlave()
    async with serving({"0.0": first, "0.1": second}) as address:
        peers = [await Peer.connect(address) for _ in range(3)]
        for peer, name in zip(peers, (b"0.0", b"0.0", b"0.1"), strict=True):
            await peer.ask(HELLO, 19)
            await peer.ask(b"\3\0\0\0\0\0\0\3" + name, 16)
        for peer, byte in zip(peers, (b"\1", b"\2", b"\3"), strict=True):
            await peer.ask(message((byte, 1)), 13)
    assert (first.mosi, second.mosi) == ([b"\1", b"\2"], [b"\3"])


# Chip select.


async def test_program_that_goes_away_lets_chip_select_go_high() -> None:
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        peer = await Peer.opened(address)
        await peer.ask(message((b"\1", 0)), 13)
        assert (slave.selected, slave.releases) == (True, 0)
        await peer.stream.send_eof()
        assert await peer.ended() == b""
        assert (slave.selected, slave.releases) == (False, 1)


async def test_program_that_breaks_off_lets_chip_select_go_high() -> None:
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        peer = await Peer.opened(address)
        await peer.ask(message((b"\1", 0)), 13)
        peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.stream.socket.close()
        while not slave.releases:
            await wait_all_tasks_blocked()
        assert not slave.selected


async def test_program_that_left_chip_select_high_releases_nothing() -> None:
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        idle, other = await Peer.opened(address), await Peer.opened(address)
        await idle.ask(message((b"\1", 0)), 13)
        await idle.ask(message((b"\1", 1)), 13)
        await other.ask(message((b"\1", 0)), 13)
        await idle.stream.send_eof()
        await idle.ended()
        assert (slave.selected, slave.releases) == (True, 0)
        await other.stream.send_eof()
        await other.ended()
        assert (slave.selected, slave.releases) == (False, 1)


async def test_end_of_the_server_lets_chip_select_go_high() -> None:
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        peer = await Peer.opened(address)
        await peer.ask(message((b"\1", 0)), 13)
    assert slave.releases == 1


def test_end_of_the_server_does_not_wait_for_a_slave_that_is_gone() -> None:
    class Dead(InvertingSlave):
        async def release(self) -> None:
            await trio.sleep_forever()

    async def test() -> None:
        near, far = memory_stream_pair()
        server = SpiLinkServer({"0.0": Dead()})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server._serve_peer, far, "peer")  # type: ignore[arg-type]
            await near.send_all(HELLO + OPEN + message((b"\1", 0)))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    assert in_mock_time(test) == spi_link_server.RELEASE_SECONDS


# Peers that break the protocol.


GREETED = HELLO + OPEN

HOSTILE = {
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", "speaks HTTP"),
    "kind": (b"\7\0\0\0\0\0\0\0", "sent frame 7 where HELLO"),
    "order": (message((b"\1", 1)), "sent frame 5 where HELLO"),
    "magic": (HELLO.replace(b"AISRV", b"AISRW"), "expected a HELLO with magic"),
    "version": (HELLO[:-1] + b"\2", "speaks version 2"),
    "open twice": (GREETED + OPEN, "sent frame 3 where MESSAGE"),
    "no name": (HELLO + b"\3\0\0\0\0\0\0\0", "1 to 255 bytes, not 0"),
    "absurd length": (GREETED + b"\5\0\0\0" + (MAX_BODY + 1).to_bytes(4, "big"), "are allowed"),
    "largest length": (GREETED + b"\5\0\0\0\xff\xff\xff\xff", "announces 4294967295 bytes"),
    "lying transfer": (GREETED + b"\5\0\0\0\0\0\0\x1a\0\1" + b"\xff" * 24, "a transfer of 4294967295 bytes"),
    "too many transfers": (GREETED + b"\5\0\0\0\0\0\0\2\xff\xff", "65535 transfers, 511 are allowed"),
    "rest": (GREETED + b"\5\0\0\0\0\0\0\3\0\0x", "1 bytes after its transfers"),
}


@pytest.mark.parametrize(("data", "line"), HOSTILE.values(), ids=HOSTILE)
async def test_peer_that_breaks_the_protocol_is_cut_off(
    data: bytes, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        peer = await Peer.connect(address)
        await peer.stream.send_all(data)
        await peer.ended()
        (record,) = caplog.records
        assert (record.levelno, record.getMessage().endswith("connection closed")) == (logging.WARNING, True)
        assert line in record.getMessage()
        assert slave.messages == []
        await assert_serving(address)


@pytest.mark.parametrize("cut", range(1, len(GREETED + message((b"\1", 1)))))
async def test_stream_that_ends_anywhere(cut: int, caplog: pytest.LogCaptureFixture) -> None:
    whole = GREETED + message((b"\1", 1))
    async with serving({"0.0": InvertingSlave()}) as address:
        peer = await Peer.connect(address)
        await peer.stream.send_all(whole[:cut])
        await peer.stream.send_eof()
        await peer.ended()
    expected = cut not in (len(HELLO), len(GREETED))
    assert ("ended within a frame" in caplog.text) == expected


@pytest.mark.parametrize("before", [b"", HELLO[:5], HELLO, HELLO + OPEN[:9]], ids=len)
async def test_peer_that_opens_nothing_is_cut_off(
    before: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spi_link_server, "FRAME_SECONDS", 0.05)
    async with serving({"0.0": InvertingSlave()}) as address:
        peer = await Peer.connect(address)
        await peer.stream.send_all(before)
        await peer.ended()
    assert "0.05 s" in caplog.text


async def test_half_a_message_and_then_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spi_link_server, "FRAME_SECONDS", 0.05)
    slave = InvertingSlave()
    async with serving({"0.0": slave}) as address:
        peer = await Peer.opened(address)
        await trio.sleep(0.1)  # between messages a program may take its time
        await peer.works()
        await peer.ask(message((b"\1", 0)), 13)
        await peer.stream.send_all(message((bytes(100), 1))[:-1])
        assert await peer.ended() == b""
        assert (len(slave.messages), slave.releases) == (2, 1)
    assert "was silent for 0.05 s after 133 bytes of a frame" in caplog.text


def test_peer_that_takes_no_answers() -> None:
    class Stuck:
        async def send_all(self, _: bytes) -> None:
            await trio.sleep_forever()

    async def test() -> None:
        stuck: Any = Stuck()
        with pytest.raises(SpiLinkError, match="did not take an answer of 5 bytes within 10 s"):
            await Connection(stuck).send(b"12345")

    assert in_mock_time(test) == spi_link_server.FRAME_SECONDS


def test_peer_that_takes_its_time_between_messages() -> None:
    async def test() -> None:
        near, far = memory_stream_pair()
        connection = Connection(far)  # type: ignore[arg-type]
        await near.send_all(b"\6\0\0\0\0\0\0\1x")
        assert await connection.receive(FrameKind.DONE) == b"x"
        with trio.move_on_after(100_000) as patience:
            await connection.receive(FrameKind.DONE)
        assert patience.cancelled_caught

    assert in_mock_time(test) == 100_000


async def test_address_in_use_is_an_os_error() -> None:
    async with serving({}) as (host, port):
        with pytest.raises(OSError, match="in use"):
            await SpiLinkServer({}).serve(host, port)
