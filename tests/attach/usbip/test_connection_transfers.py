"""USB/IP after an import: transfers of every size, the stream, parked requests."""

import random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost
from aisrv.protocol.usbip import MAX_TRANSFER
from phy.usb.bus import UsbBus
from tests.support.benches.usb_firmware import idle, loopback, sink
from tests.support.peers.usbip_host import (
    DEVICE_DESCRIPTOR,
    ECONNRESET,
    EINVAL,
    EOVERFLOW,
    EPIPE,
    GET_DEVICE_DESCRIPTOR,
    SET_CONFIGURATION,
    ZERO_PACKET,
    Answer,
    control_in,
    control_out,
    pattern,
    served,
    submit_in,
    submit_out,
    unlink,
)

SIZES = [0, 1, 3, 511, 512, 513, 1023, 1024, 65_535, 65_536, 65_537, 100_000, 262_144, 4 << 20, MAX_TRANSFER]
SET_DESCRIPTOR = bytes.fromhex("0007000100001200")
GET_STATUS = bytes.fromhex("8000000000000200")


# Control transfers.


@pytest.mark.parametrize(
    ("setup", "length", "data"),
    [
        ("8006000100001200", 18, DEVICE_DESCRIPTOR),
        ("8006000100004000", 64, DEVICE_DESCRIPTOR),
        ("8006000100000800", 8, DEVICE_DESCRIPTOR[:8]),
        ("8006000100000000", 0, b""),
        ("8006000100001200", 5, DEVICE_DESCRIPTOR[:5]),  # less room than SETUP says
        ("8006000100001200", 4096, DEVICE_DESCRIPTOR),  # more room
        ("8006000300000400", 4, bytes.fromhex("04030904")),
        ("8000000000000200", 2, b"\0\0"),
        ("8008000000000100", 1, b"\x01"),
    ],
)
async def test_control_in(setup: str, length: int, data: bytes) -> None:
    async with served(idle) as server:
        host = await server.attach()
        answer = await host.ask(control_in(1, bytes.fromhex(setup), length))
        assert answer == Answer(3, 1, 0, len(data), data)


@pytest.mark.parametrize("setup", ["8006010200000900", "8006000400000900", "c001000000000400", "ff" * 8])
async def test_control_in_that_the_device_refuses(setup: str) -> None:
    async with served(idle) as server:
        host = await server.attach()
        assert await host.ask(control_in(1, bytes.fromhex(setup))) == Answer(3, 1, EPIPE)


async def test_control_out() -> None:
    async with served(idle) as server:
        host = await server.attach()
        assert await host.ask(control_out(1, bytes.fromhex("0009000000000000"))) == Answer(3, 1, 0)
        assert server.bus.configuration == 0


async def test_control_out_whose_data_come_later() -> None:
    """The header and the data of a request are often two sends of the host."""
    async with served(loopback) as server:
        host = await server.attach()
        message = control_out(1, SET_DESCRIPTOR, bytes(18))
        for cut in (1, 47, 48, 49, 65):
            await host.send(message[:cut])
            await wait_all_tasks_blocked()
            assert await host.ask(message[cut:]) == Answer(3, 1, EPIPE)
        await host.works()


@pytest.mark.parametrize("length", [65_535, 65_536, 70_000, 1 << 20])
async def test_control_out_of_more_data_than_its_setup_packet_can_tell(length: int) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        answer = await host.ask(control_out(1, SET_DESCRIPTOR, bytes(length)))
        assert answer == Answer(3, 1, EPIPE if length <= 65_536 else EINVAL)
        await host.works()


async def test_control_transfer_whose_setup_packet_goes_the_other_way() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(control_out(1, GET_DEVICE_DESCRIPTOR)) == Answer(3, 1, EINVAL)
        assert await host.ask(control_in(2, SET_DESCRIPTOR, 18)) == Answer(3, 2, EINVAL)
        await host.works()


async def test_control_transfer_without_data_goes_either_way() -> None:
    """Linux calls a transfer without a data stage OUT, even with a SETUP packet that says IN."""
    async with served(idle) as server:
        host = await server.attach()
        assert await host.ask(control_out(1, bytes.fromhex("8006000100000000"))) == Answer(3, 1, 0)
        assert await host.ask(control_in(2, SET_CONFIGURATION, 0)) == Answer(3, 2, 0)


# Sizes.


@pytest.mark.parametrize("size", SIZES)
async def test_there_and_back(size: int) -> None:
    data = pattern(size)
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(submit_out(1, data, flags=ZERO_PACKET)) == Answer(3, 1, 0, size)
        got = await host.ask(submit_in(2, size))
        assert (got.status, got.actual) == (0, size)
        assert got.data == data
        if size and not size % 512:
            assert await host.ask(submit_in(3, 512)) == Answer(3, 3, 0)
        await host.works()


@pytest.mark.parametrize("size", [512, 1024, 65_536, 100_352])
async def test_without_zero_packet_the_transfer_stays_open(size: int) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(submit_out(1, pattern(size))) == Answer(3, 1, 0, size)
        assert await host.ask(submit_out(2, b"end")) == Answer(3, 2, 0, 3)
        assert await host.ask(submit_in(3, size + 3)) == Answer(3, 3, 0, size + 3, pattern(size) + b"end")


async def test_request_of_no_bytes_ends_a_transfer() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_out(1, pattern(512)), submit_out(2, b""), submit_in(3, 1024))
        got = {each.seqnum: each for each in await host.answers(3)}
        assert got == {
            1: Answer(3, 1, 0, 512),
            2: Answer(3, 2, 0, 0),
            3: Answer(3, 3, 0, 512, pattern(512)),
        }


async def test_zero_packet_flag_changes_nothing_after_a_short_packet() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        for seqnum in (1, 3):
            await host.send(submit_out(seqnum, b"abc", flags=ZERO_PACKET), submit_in(seqnum + 1, 512))
            assert await host.answers(2) == [
                Answer(3, seqnum, 0, 3),
                Answer(3, seqnum + 1, 0, 3, b"abc"),
            ]


async def test_transfer_in_several_requests() -> None:
    data = pattern(100_000)
    async with served(loopback) as server:
        host = await server.attach()
        pieces = [data[start : start + 16_384] for start in range(0, len(data), 16_384)]
        await host.send(*(submit_out(number, piece) for number, piece in enumerate(pieces, 1)))
        assert [each.actual for each in await host.answers(len(pieces))] == [16_384] * 6 + [1696]
        await host.send(*(submit_in(number, 16_384) for number in range(1, 8)))
        got = await host.answers(7)
        assert [each.seqnum for each in got] == [1, 2, 3, 4, 5, 6, 7]
        assert b"".join(each.data for each in got) == data


async def test_short_packet_ends_a_large_in_request() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, MAX_TRANSFER), submit_out(2, b"short"))
        assert set(await host.answers(2)) == {Answer(3, 1, 0, 5, b"short"), Answer(3, 2, 0, 5)}


async def test_packet_larger_than_the_request_overflows() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.ask(submit_out(1, bytes(100)))
        assert await host.ask(submit_in(2, 99)) == Answer(3, 2, EOVERFLOW)
        assert await host.ask(submit_in(3, 100)) == Answer(3, 3, 0, 100, bytes(100))


# The stream: segments and order.


async def test_many_requests_in_one_segment() -> None:
    async with served(sink) as server:
        host = await server.attach()
        await host.send(*(submit_out(number, bytes(512)) for number in range(1, 1001)))
        assert await host.answers(1000) == [Answer(3, number, 0, 512) for number in range(1, 1001)]


async def test_messages_cut_at_random() -> None:
    """Cuts of the stream anywhere, at sizes around the receive buffer, change nothing."""
    rng = random.Random(0x20B1)
    async with served(loopback) as server:
        host = await server.attach()
        data = [pattern(rng.choice((0, 1, 513, 5000, 70_000, 300_000)), seed) for seed in range(40)]
        stream = b"".join(submit_out(number, each, flags=ZERO_PACKET) for number, each in enumerate(data, 1))

        async def send() -> None:
            start = 0
            while start < len(stream):
                size = rng.choice((1, 47, 100, 48_000, 262_144, 400_000))
                await host.send(stream[start : start + size])
                start += size

        received: list[bytes] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(_take_transfers, server.bus, received, len(data))
            for number, each in enumerate(data, 1):
                assert await host.answer() == Answer(3, number, 0, len(each))
        assert received == data


async def _take_transfers(bus: UsbBus, received: list[bytes], count: int) -> None:
    """What the loopback sends back, past the stream under test."""
    host = InProcessHost(bus)
    while len(received) < count:
        received.append(await host.read(1 << 20))


# Parked requests.


async def test_in_request_waits_while_other_transfers_go_on() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512))
        for seqnum in range(2, 20):
            assert (await host.ask(control_in(seqnum, GET_STATUS))).data == b"\0\0"
        assert await host.ask(submit_out(20, pattern(512))) == Answer(3, 20, 0, 512)
        assert await host.ask(submit_out(21, b"")) == Answer(3, 21, 0)
        assert await host.answer() == Answer(3, 1, 0, 512, pattern(512))


async def test_out_request_waits_while_other_transfers_go_on() -> None:
    """The device NAKs OUT data that the firmware does not want; the bus is free for others."""
    async with served(idle) as server:
        host = await server.attach()
        await host.send(submit_out(1, bytes(1 << 20)))
        assert (await host.ask(control_in(2, GET_STATUS))).data == b"\0\0"
        assert await host.ask(unlink(3, 1)) == Answer(4, 3, ECONNRESET)


async def test_out_answer_waits_until_the_firmware_took_the_last_packet() -> None:
    async with served(idle) as server:
        host = await server.attach()
        server.bus.out_endpoint.acknowledge_reset()
        await host.send(submit_out(1, pattern(1025)), control_in(2, GET_STATUS))
        assert (await host.answer()).seqnum == 2
        for start in (0, 512):
            assert (await server.bus.out_endpoint.get_buffer()).data == pattern(1025)[start : start + 512]
        assert (await host.ask(control_in(3, GET_STATUS))).seqnum == 3
        assert (await server.bus.out_endpoint.get_buffer()).data == pattern(1025)[1024:]
        assert await host.answer() == Answer(3, 1, 0, 1025)
