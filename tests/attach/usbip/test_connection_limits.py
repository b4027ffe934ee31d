"""USB/IP requests that are refused, and hosts that do not read: what a host may have pending is bounded."""

import itertools
import socket

import pytest
import trio

from aisrv.attach.usbip import connection as usbip_connection
from aisrv.attach.usbip import urbs as pending_urbs
from aisrv.attach.usbip.sender import Sender
from aisrv.protocol.usbip import MAX_TRANSFER
from tests.support.benches.usb_firmware import idle, loopback, sink, source
from tests.support.peers.usbip_host import (
    ECONNRESET,
    EINVAL,
    ENODEV,
    ENOMEM,
    EPIPE,
    Answer,
    control_in,
    control_out,
    pattern,
    served,
    submit,
    submit_in,
    submit_out,
    unlink,
)

GET_STATUS = bytes.fromhex("8000000000000200")


@pytest.mark.parametrize("devid", [0, 1, 0x10000, 0x10002, 0x20001, 0xFFFFFFFF])
async def test_wrong_device(devid: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(submit_out(1, b"whose?", devid=devid)) == Answer(3, 1, ENODEV)
        assert await host.ask(submit_in(2, 512, devid=devid)) == Answer(3, 2, ENODEV)
        assert len(caplog.records) == 2
        await host.works()


@pytest.mark.parametrize("endpoint", [2, 15, 16, 0x81, 0x101, 0xFFFFFFFF])
async def test_endpoint_that_does_not_exist(endpoint: int) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(submit_out(1, b"x", endpoint)) == Answer(3, 1, EPIPE)
        assert await host.ask(submit_out(2, bytes(1 << 20), endpoint)) == Answer(3, 2, EPIPE)
        assert await host.ask(submit_in(3, 512, endpoint)) == Answer(3, 3, EPIPE)
        await host.works()


async def test_seqnum_that_is_still_pending(caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512))
        assert await host.ask(submit_in(1, 100)) == Answer(3, 1, EINVAL)
        assert len(caplog.records) == 1
        await host.send(submit_out(2, pattern(200)))
        assert await host.answer() == Answer(3, 2, 0, 200)
        assert await host.answer() == Answer(3, 1, 0, 200, pattern(200))


async def test_seqnum_of_an_out_request_that_is_still_pending() -> None:
    async with served(idle) as server:
        host = await server.attach()
        await host.send(submit_out(1, bytes(1000)))
        assert await host.ask(submit_out(1, b"again")) == Answer(3, 1, EINVAL)
        assert server.bus.out_endpoint.pending == 1
        assert await host.ask(unlink(2, 1)) == Answer(4, 2, ECONNRESET)


async def test_more_out_data_in_flight_than_is_kept() -> None:
    async with served(idle) as server:
        host = await server.attach()
        half = bytes(MAX_TRANSFER // 2)
        await host.send(submit_out(1, half), submit_out(2, half))
        assert await host.ask(submit_out(3, b"x")) == Answer(3, 3, ENOMEM)
        assert await host.ask(submit_out(4, bytes(1 << 20))) == Answer(3, 4, ENOMEM)
        assert await host.ask(submit_out(5, b""), unlink(6, 5)) == Answer(4, 6, ECONNRESET)
        assert await host.ask(unlink(7, 1)) == Answer(4, 7, ECONNRESET)
        await host.send(submit_out(8, half))
        assert await host.ask(unlink(9, 8)) == Answer(4, 9, ECONNRESET)


async def test_out_data_counts_until_it_is_taken() -> None:
    async with served(sink) as server:
        host = await server.attach()
        for seqnum in range(1, 5):
            assert await host.ask(submit_out(seqnum, bytes(MAX_TRANSFER))) == Answer(
                3, seqnum, 0, MAX_TRANSFER
            )


async def test_more_room_asked_for_than_is_kept() -> None:
    async with served(idle) as server:
        host = await server.attach()
        await host.send(*(submit_in(number, MAX_TRANSFER) for number in range(1, 5)))
        assert await host.ask(submit_in(5, 1)) == Answer(3, 5, ENOMEM)
        assert await host.ask(unlink(6, 1)) == Answer(4, 6, ECONNRESET)
        assert await host.ask(submit_in(7, 1), unlink(8, 7)) == Answer(4, 8, ECONNRESET)


async def test_room_counts_until_the_answer() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        for _ in range(5):
            await host.send(submit_in(1, MAX_TRANSFER), submit_out(2, b"x"))
            assert set(await host.answers(2)) == {Answer(3, 1, 0, 1, b"x"), Answer(3, 2, 0, 1)}


@pytest.mark.parametrize(
    "one_more", [submit_in(5, 1), submit_out(5, b"x"), control_in(5, GET_STATUS), control_out(5, bytes(8))]
)
async def test_more_requests_than_are_kept(one_more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_urbs, "PENDING_LIMIT", 3)
    async with served(idle) as server:
        host = await server.attach()
        await host.send(submit_in(1, 1), submit_in(2, 1), submit_out(3, b""))
        assert await host.ask(one_more) == Answer(3, 5, ENOMEM)
        assert await host.ask(unlink(6, 1)) == Answer(4, 6, ECONNRESET)
        await host.send(submit_in(7, 1))
        assert await host.ask(unlink(8, 7)) == Answer(4, 8, ECONNRESET)


async def test_direction_that_is_none(caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit(1, 2, 1, 512))
        assert await host.ended() == b""
        (line,) = caplog.records
        assert "request 1 goes in direction 2" in line.getMessage()
        await (await server.attach()).works()


async def test_host_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are kept up to a limit, then nothing more is taken from it; another host feels nothing."""
    senders: list[Sender] = []

    class WatchedSender(Sender):
        def __init__(self, sock: socket.socket) -> None:
            super().__init__(sock)
            senders.append(self)

    monkeypatch.setattr(usbip_connection, "Sender", WatchedSender)
    monkeypatch.setattr(usbip_connection, "UNSENT_LIMIT", 1 << 20)
    monkeypatch.setattr(pending_urbs, "ROOM_LIMIT", 1 << 20)
    async with served(source, loopback) as server, trio.open_nursery() as nursery:
        host, other = await server.attach("1-1"), await server.attach("1-2")
        seqnums = itertools.count(1)

        async def ask_for_ever() -> None:
            while True:
                await host.send(*(submit_in(seqnum, 65_536) for seqnum in itertools.islice(seqnums, 500)))

        nursery.start_soon(ask_for_ever)
        while senders[0].unsent_bytes <= 1 << 20:
            await trio.lowlevel.checkpoint()
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
        assert 1 << 20 < senders[0].unsent_bytes < (2 << 20) + 500_000
        for _ in range(50):
            assert await other.ask(submit_out(1, b"x", devid=0x10002)) == Answer(3, 1, 0, 1)
            assert (await other.ask(submit_in(2, 512, devid=0x10002))).data == b"x"
        first = await host.answer()
        assert (first.seqnum, first.actual) == (1, 65_536)
        nursery.cancel_scope.cancel()


async def test_slow_reader_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_connection, "UNSENT_LIMIT", 65_536)
    async with served(source) as server, trio.open_nursery() as nursery:
        host = await server.attach()

        async def ask() -> None:
            for seqnum in range(1, 101):
                await host.send(submit_in(seqnum, 100_352))

        nursery.start_soon(ask)
        for seqnum in range(1, 101):
            answer = await host.answer()
            assert (answer.seqnum, answer.actual, len(answer.data)) == (seqnum, 100_352, 100_352)
