"""USB/IP hosts that lie, stop or break off: the device stays free for others, and one line tells of it."""

import gc
import random
import tracemalloc
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip import connection as usbip_connection
from aisrv.attach.usbip.connection import Connection
from aisrv.protocol.usbip import MAX_TRANSFER
from tests.support.benches.usb_firmware import loopback
from tests.support.peers.usbip_host import (
    EINVAL,
    GET_DEVICE_DESCRIPTOR,
    SET_CONFIGURATION,
    Answer,
    ExportedDevices,
    UsbipHost,
    control_in,
    control_out,
    request_import,
    served,
    submit,
    submit_in,
    submit_out,
    unlink,
)

ABSURD = [MAX_TRANSFER + 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]
RESETS = 200


async def assert_serving(server: ExportedDevices) -> None:
    """Another host is served, and the device is free for it."""
    host = await server.attach()
    await host.works()
    await host.leave()


@pytest.mark.parametrize("endpoint", [0, 1, 2])
@pytest.mark.parametrize("length", ABSURD)
async def test_absurd_length_of_out_data(
    endpoint: int, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        tracemalloc.start()
        await host.send(submit(1, 0, endpoint, length) + bytes(1000))
        assert await host.ended() == b""
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20
        (line,) = caplog.records
        assert f"request 1 sends {length} bytes, 16777216 are allowed" in line.getMessage()
        await assert_serving(server)


@pytest.mark.parametrize("endpoint", [0, 1, 2])
@pytest.mark.parametrize("length", ABSURD)
async def test_absurd_length_of_in_data(endpoint: int, length: int, caplog: pytest.LogCaptureFixture) -> None:
    """No data follow an IN request, so that the stream is still in step."""
    async with served(loopback) as server:
        host = await server.attach()
        request = submit(1, 1, endpoint, length, setup=GET_DEVICE_DESCRIPTOR)
        assert await host.ask(request) == Answer(3, 1, EINVAL)
        (line,) = caplog.records
        assert f"request 1 asks for {length} bytes" in line.getMessage()
        await host.works()


async def test_room_asked_for_is_not_allocated() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        tracemalloc.start()
        await host.send(*(submit_in(seqnum, MAX_TRANSFER) for seqnum in (1, 2, 3, 4)))
        await wait_all_tasks_blocked()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert server.bus.in_endpoint.pending == 4
        assert peak < 1 << 20


@pytest.mark.parametrize("message", [0, 3, 4, 5, 0x01000000, 0xFFFFFFFF])
async def test_message_that_no_host_sends(message: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(message.to_bytes(4, "big") + submit_in(1, 512)[4:])
        assert await host.ended() == b""
        (line,) = caplog.records
        assert f"message {message} where SUBMIT or UNLINK was expected" in line.getMessage()
        await assert_serving(server)


async def test_requests_before_the_garbage_are_answered() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(control_in(1, GET_DEVICE_DESCRIPTOR))
        assert (await host.answer()).actual == 18
        await host.send(submit_in(2, 512), b"\xee" * 48)
        assert await host.ended() == b""
        await assert_serving(server)


async def test_end_of_stream_within_an_import(caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        message = request_import()
        for cut in range(1, len(message)):
            caplog.clear()
            host = await server.connect()
            await host.stream.send_all(message[:cut])
            assert await host.leave() == b""
            (line,) = caplog.records
            assert "the stream ended" in line.getMessage()
        await assert_serving(server)


@pytest.mark.parametrize(
    "message",
    [submit_out(1, b"data"), submit_in(1, 512), unlink(1, 2), control_out(1, bytes(8), b"four")],
    ids=["out", "in", "unlink", "control"],
)
async def test_end_of_stream_within_a_message(message: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        for cut in range(1, len(message)):
            caplog.clear()
            host = await server.attach()
            await host.send(message[:cut])
            assert await host.leave() == b""
            (line,) = caplog.records
            needed = 48 if cut < 48 else len(message)
            assert f"the stream ended after {cut} of {needed} bytes of a message" in line.getMessage()
        await assert_serving(server)


@pytest.mark.parametrize("length", [65_537, 1 << 20, MAX_TRANSFER])
async def test_end_of_stream_within_large_data(length: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        for sent in (0, 1, 65_536):
            caplog.clear()
            host = await server.attach()
            await host.send(submit(1, 0, 1, length) + bytes(sent))
            assert await host.leave() == b""
            (line,) = caplog.records
            assert f"the stream ended {length - sent} bytes before the end" in line.getMessage()
        await assert_serving(server)


@pytest.mark.parametrize(
    "begun",
    [submit_in(1, 512)[:1], submit_in(1, 512)[:47], submit_out(1, b"data")[:-1], submit(1, 0, 1, 1 << 20)],
)
async def test_half_a_message_then_silence(
    begun: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usbip_connection, "HALF_MESSAGE_SECONDS", 0.02)
    async with served(loopback, loopback) as server:
        host = await server.attach()
        await host.send(submit_in(9, 512), begun)
        assert await host.ended() == b""
        (line,) = caplog.records
        assert "the rest of a message did not come within 0.02 s; connection closed" in line.getMessage()
        await assert_serving(server)


async def test_silence_between_messages_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_connection, "HALF_MESSAGE_SECONDS", 0.02)
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512))
        await trio.sleep(0.06)
        assert await host.ask(submit_out(2, b"here")) == Answer(3, 2, 0, 4)
        assert (await host.answer()).data == b"here"


async def test_other_hosts_are_served_during_half_a_message() -> None:
    async with served(loopback, loopback) as server:
        silent = await server.attach("1-2")
        await silent.send(submit(1, 0, 1, 1 << 20, devid=0x10002) + bytes(1000))
        await assert_serving(server)


def _any_message(rng: random.Random, seqnum: int) -> bytes:
    return rng.choice(
        (
            submit_in(seqnum, rng.choice((0, 512, 65_536, MAX_TRANSFER))),
            submit_out(seqnum, bytes(rng.choice((0, 1, 512, 1024, 70_000, 300_000)))),
            control_in(seqnum, GET_DEVICE_DESCRIPTOR),
            unlink(seqnum, rng.randrange(seqnum)),
        )
    )


async def _break_off(server: ExportedDevices, rng: random.Random) -> None:
    """A session that ends anywhere: in the middle of a message, with answers unread, by FIN or RST."""
    messages = [request_import(), control_out(1, SET_CONFIGURATION)]
    messages += [_any_message(rng, seqnum) for seqnum in range(2, rng.randrange(2, 12))]
    stream = b"".join(messages)
    sent = rng.randrange(len(stream) + 1) if rng.random() < 0.7 else len(stream)
    host: UsbipHost = await server.connect()
    with suppress(trio.BrokenResourceError):  # where another host has the device
        await host.stream.send_all(stream[:sent])
    for _ in range(rng.randrange(12)):
        await trio.lowlevel.checkpoint()
    if rng.random() < 0.5:
        await wait_all_tasks_blocked()
    if rng.random() < 0.3 and sent > 40:
        with suppress(trio.BrokenResourceError):
            await host.stream.receive_some(rng.randrange(1, 400))
    how = rng.random()
    if how < 0.4:
        host.reset()
    elif how < 0.7:
        host.stream.socket.close()  # a reset where answers are unread
    else:
        with suppress(trio.BrokenResourceError):
            await host.stream.send_eof()


async def test_connections_that_break_off_at_random_moments(caplog: pytest.LogCaptureFixture) -> None:
    """No task, socket, import or request is left of any, see `served`; the server goes on."""
    caplog.set_level("INFO")
    rng = random.Random(3)
    async with served(loopback) as server:
        for number in range(RESETS):
            await _break_off(server, rng)
            await wait_all_tasks_blocked()
            if not number % 20:
                await wait_all_tasks_blocked(0.005)
                server.assert_unused()
                await assert_serving(server)
        await wait_all_tasks_blocked(0.01)
        await assert_serving(server)
    lines = [line.getMessage() for line in caplog.records]
    assert sum("imported" in line for line in lines) > RESETS // 2
    for fate in ("went away", "the stream ended", "released"):
        assert sum(fate in line for line in lines) > RESETS // 10


async def test_many_connections_break_off_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")  # what is logged would be kept in memory
    rng = random.Random(4)
    async with served(*[loopback] * 3) as server:
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(_break_off, server, random.Random(rng.random()))
        await wait_all_tasks_blocked(0.01)
        await assert_serving(server)
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Connection]
