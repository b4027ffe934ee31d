"""USB/IP after an import: transfers of every size, parked requests, UNLINK, refusals."""

import itertools
import random
import socket
import struct

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach import usbip_connection, usbip_requests
from aisrv.attach.inprocess import InProcessHost
from aisrv.attach.usbip_sender import Sender
from aisrv.usbip import MAX_TRANSFER
from phy.usb.bus import UsbBus
from tests.attach.rig import (
    CLEAR_HALT_IN,
    CLEAR_HALT_OUT,
    DEVICE_DESCRIPTOR,
    ECONNRESET,
    EINVAL,
    ENODEV,
    ENOMEM,
    EOVERFLOW,
    EPIPE,
    ESHUTDOWN,
    GET_DEVICE_DESCRIPTOR,
    SET_CONFIGURATION,
    ZERO_PACKET,
    Answer,
    control_in,
    control_out,
    idle,
    loopback,
    pattern,
    served,
    sink,
    source,
    submit,
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
    async with served(idle) as rig:
        host = await rig.attach()
        answer = await host.ask(control_in(1, bytes.fromhex(setup), length))
        assert answer == Answer(3, 1, 0, len(data), data)


@pytest.mark.parametrize("setup", ["8006010200000900", "8006000400000900", "c001000000000400", "ff" * 8])
async def test_control_in_that_the_device_refuses(setup: str) -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        assert await host.ask(control_in(1, bytes.fromhex(setup))) == Answer(3, 1, EPIPE)


async def test_control_out() -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        assert await host.ask(control_out(1, bytes.fromhex("0009000000000000"))) == Answer(3, 1, 0)
        assert rig.bus.configuration == 0


async def test_control_out_whose_data_come_later() -> None:
    """The header and the data of a request are often two sends of the host."""
    async with served(loopback) as rig:
        host = await rig.attach()
        message = control_out(1, SET_DESCRIPTOR, bytes(18))
        for cut in (1, 47, 48, 49, 65):
            await host.send(message[:cut])
            await wait_all_tasks_blocked()
            assert await host.ask(message[cut:]) == Answer(3, 1, EPIPE)
        await host.works()


@pytest.mark.parametrize("length", [65_535, 65_536, 70_000, 1 << 20])
async def test_control_out_of_more_data_than_its_setup_packet_can_tell(length: int) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        answer = await host.ask(control_out(1, SET_DESCRIPTOR, bytes(length)))
        assert answer == Answer(3, 1, EPIPE if length <= 65_536 else EINVAL)
        await host.works()


async def test_control_transfer_whose_setup_packet_goes_the_other_way() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(control_out(1, GET_DEVICE_DESCRIPTOR)) == Answer(3, 1, EINVAL)
        assert await host.ask(control_in(2, SET_DESCRIPTOR, 18)) == Answer(3, 2, EINVAL)
        await host.works()


async def test_control_transfer_without_data_goes_either_way() -> None:
    """Linux calls a transfer without a data stage OUT, even with a SETUP packet that says IN."""
    async with served(idle) as rig:
        host = await rig.attach()
        assert await host.ask(control_out(1, bytes.fromhex("8006000100000000"))) == Answer(3, 1, 0)
        assert await host.ask(control_in(2, SET_CONFIGURATION, 0)) == Answer(3, 2, 0)


# Sizes.


@pytest.mark.parametrize("size", SIZES)
async def test_there_and_back(size: int) -> None:
    data = pattern(size)
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(submit_out(1, data, flags=ZERO_PACKET)) == Answer(3, 1, 0, size)
        got = await host.ask(submit_in(2, size))
        assert (got.status, got.actual) == (0, size)
        assert got.data == data
        if size and not size % 512:
            assert await host.ask(submit_in(3, 512)) == Answer(3, 3, 0)
        await host.works()


@pytest.mark.parametrize("size", [512, 1024, 65_536, 100_352])
async def test_without_zero_packet_the_transfer_stays_open(size: int) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(submit_out(1, pattern(size))) == Answer(3, 1, 0, size)
        assert await host.ask(submit_out(2, b"end")) == Answer(3, 2, 0, 3)
        assert await host.ask(submit_in(3, size + 3)) == Answer(3, 3, 0, size + 3, pattern(size) + b"end")


async def test_request_of_no_bytes_ends_a_transfer() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_out(1, pattern(512)), submit_out(2, b""), submit_in(3, 1024))
        got = {each.seqnum: each for each in await host.answers(3)}
        assert got == {
            1: Answer(3, 1, 0, 512),
            2: Answer(3, 2, 0, 0),
            3: Answer(3, 3, 0, 512, pattern(512)),
        }


async def test_zero_packet_flag_changes_nothing_after_a_short_packet() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        for seqnum in (1, 3):
            await host.send(submit_out(seqnum, b"abc", flags=ZERO_PACKET), submit_in(seqnum + 1, 512))
            assert await host.answers(2) == [
                Answer(3, seqnum, 0, 3),
                Answer(3, seqnum + 1, 0, 3, b"abc"),
            ]


async def test_transfer_in_several_requests() -> None:
    data = pattern(100_000)
    async with served(loopback) as rig:
        host = await rig.attach()
        pieces = [data[start : start + 16_384] for start in range(0, len(data), 16_384)]
        await host.send(*(submit_out(number, piece) for number, piece in enumerate(pieces, 1)))
        assert [each.actual for each in await host.answers(len(pieces))] == [16_384] * 6 + [1696]
        await host.send(*(submit_in(number, 16_384) for number in range(1, 8)))
        got = await host.answers(7)
        assert [each.seqnum for each in got] == [1, 2, 3, 4, 5, 6, 7]
        assert b"".join(each.data for each in got) == data


async def test_short_packet_ends_a_large_in_request() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, MAX_TRANSFER), submit_out(2, b"short"))
        assert set(await host.answers(2)) == {Answer(3, 1, 0, 5, b"short"), Answer(3, 2, 0, 5)}


async def test_packet_larger_than_the_request_overflows() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.ask(submit_out(1, bytes(100)))
        assert await host.ask(submit_in(2, 99)) == Answer(3, 2, EOVERFLOW)
        assert await host.ask(submit_in(3, 100)) == Answer(3, 3, 0, 100, bytes(100))


# The stream: segments and order.


async def test_many_requests_in_one_segment() -> None:
    async with served(sink) as rig:
        host = await rig.attach()
        await host.send(*(submit_out(number, bytes(512)) for number in range(1, 1001)))
        assert await host.answers(1000) == [Answer(3, number, 0, 512) for number in range(1, 1001)]


async def test_request_in_segments_of_one_byte() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        for byte in submit_out(1, b"byte by byte") + submit_in(2, 512):
            await host.stream.send_all(bytes((byte,)))
            await wait_all_tasks_blocked()
        assert await host.answer() == Answer(3, 1, 0, 12)
        header = await host.receive(48)
        assert struct.unpack(">II12xii", header[:28]) == (3, 2, 0, 12)
        assert await host.receive(12) == b"byte by byte"


async def test_messages_cut_at_random() -> None:
    """Cuts of the stream anywhere, at sizes around the receive buffer, change nothing."""
    rng = random.Random(0x20B1)
    async with served(loopback) as rig:
        host = await rig.attach()
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
            nursery.start_soon(_take_transfers, rig.bus, received, len(data))
            for number, each in enumerate(data, 1):
                assert await host.answer() == Answer(3, number, 0, len(each))
        assert received == data


async def _take_transfers(bus: UsbBus, received: list[bytes], count: int) -> None:
    """What the loopback sends back, past the stream under test."""
    host = InProcessHost(bus)
    while len(received) < count:
        received.append(await host.read(1 << 20))


async def test_answers_leave_in_the_order_of_their_ends() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512))
        assert await host.ask(control_in(2, GET_DEVICE_DESCRIPTOR)) == Answer(3, 2, 0, 18, DEVICE_DESCRIPTOR)
        assert await host.ask(submit_out(3, b"x")) == Answer(3, 3, 0, 1)
        assert await host.answer() == Answer(3, 1, 0, 1, b"x")


# Parked requests.


async def test_in_request_waits_while_other_transfers_go_on() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512))
        for seqnum in range(2, 20):
            assert (await host.ask(control_in(seqnum, GET_STATUS))).data == b"\0\0"
        assert await host.ask(submit_out(20, pattern(512))) == Answer(3, 20, 0, 512)
        assert await host.ask(submit_out(21, b"")) == Answer(3, 21, 0)
        assert await host.answer() == Answer(3, 1, 0, 512, pattern(512))


async def test_out_request_waits_while_other_transfers_go_on() -> None:
    """The device NAKs OUT data that the firmware does not want; the bus is free for others."""
    async with served(idle) as rig:
        host = await rig.attach()
        await host.send(submit_out(1, bytes(1 << 20)))
        assert (await host.ask(control_in(2, GET_STATUS))).data == b"\0\0"
        assert await host.ask(unlink(3, 1)) == Answer(4, 3, ECONNRESET)


async def test_out_answer_waits_until_the_firmware_took_the_last_packet() -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        rig.bus.out.acknowledge_reset()
        await host.send(submit_out(1, pattern(1025)), control_in(2, GET_STATUS))
        assert (await host.answer()).seqnum == 2
        for start in (0, 512):
            assert (await rig.bus.out.get_buffer()).data == pattern(1025)[start : start + 512]
        assert (await host.ask(control_in(3, GET_STATUS))).seqnum == 3
        assert (await rig.bus.out.get_buffer()).data == pattern(1025)[1024:]
        assert await host.answer() == Answer(3, 1, 0, 1025)


# UNLINK.


@pytest.mark.parametrize("request_bytes", [submit_in(1, 512), submit_out(1, b"data"), submit_out(1, b"")])
@pytest.mark.parametrize("together", [False, True])
async def test_unlink_of_a_pending_request(request_bytes: bytes, together: bool) -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        if together:
            await host.send(request_bytes, unlink(2, 1))
        else:
            await host.send(request_bytes)
            await wait_all_tasks_blocked()
            await host.send(unlink(2, 1))
        assert await host.answer() == Answer(4, 2, ECONNRESET)
        assert (rig.bus.out.pending, rig.bus.into.pending) == (0, 0)
        assert await host.leave() == b""


async def test_unlink_of_a_request_that_is_done() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(submit_out(1, b"x")) == Answer(3, 1, 0, 1)
        assert await host.ask(unlink(2, 1)) == Answer(4, 2, 0)
        assert await host.leave() == b""


@pytest.mark.parametrize("target", [0, 2, 77, 0xFFFFFFFF])
async def test_unlink_of_an_unknown_request(target: int) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(unlink(2, target)) == Answer(4, 2, 0)
        await host.works()


async def test_unlink_twice() -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512), unlink(2, 1), unlink(3, 1))
        assert await host.answers(2) == [Answer(4, 2, ECONNRESET), Answer(4, 3, 0)]


async def test_unlinked_in_request_takes_no_data() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512), unlink(2, 1), submit_out(3, b"kept"), submit_in(4, 512))
        assert await host.answers(3) == [
            Answer(4, 2, ECONNRESET),
            Answer(3, 3, 0, 4),
            Answer(3, 4, 0, 4, b"kept"),
        ]


async def test_unlinked_request_of_many() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(*(submit_in(number, 512) for number in (1, 2, 3)))
        assert await host.ask(unlink(4, 2)) == Answer(4, 4, ECONNRESET)
        for seqnum, waiting in ((5, 1), (6, 3)):
            await host.send(submit_out(seqnum, b"x"))
            assert await host.answers(2) == [Answer(3, seqnum, 0, 1), Answer(3, waiting, 0, 1, b"x")]


async def test_unlink_of_a_control_transfer_in_hand() -> None:
    """Endpoint 0 answers later; the host must not hear of it after the UNLINK has been confirmed."""
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(control_in(1, GET_STATUS), unlink(2, 1))
        assert await host.answer() == Answer(4, 2, ECONNRESET)
        await host.works()
        assert await host.leave() == b""


async def test_seqnum_of_an_unlinked_control_transfer_may_be_used_at_once() -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        await host.send(control_in(1, GET_STATUS), unlink(2, 1), control_in(1, GET_DEVICE_DESCRIPTOR))
        assert await host.answers(2) == [
            Answer(4, 2, ECONNRESET),
            Answer(3, 1, 0, 18, DEVICE_DESCRIPTOR),
        ]
        assert await host.leave() == b""


async def test_unlink_races_answer_each_request_once() -> None:
    """Whatever the moment, a request ends by one RET_SUBMIT, or by RET_UNLINK with -104 and no RET_SUBMIT."""
    rng = random.Random(0xA15E)
    async with served(loopback) as rig:
        host = await rig.attach()
        ended = []
        for start in range(10, 2000, 4):
            messages = [submit_in(start, 512), submit_out(start + 1, b"x"), unlink(start + 2, start)]
            cut = rng.randrange(4)
            await host.send(*messages[:cut])
            for _ in range(rng.randrange(3)):
                await trio.lowlevel.checkpoint()
            await host.send(*messages[cut:])
            got = [await host.answer(), await host.answer()]
            while got[-1].seqnum != start + 2:
                got.append(await host.answer())
            statuses = {each.seqnum: (each.message, each.status) for each in got}
            assert len(statuses) == len(got)
            unlinked = statuses[start + 2] == (4, ECONNRESET)
            assert unlinked == (start not in statuses)
            ended.append(unlinked)
            if start + 1 not in statuses:
                assert await host.answer() == Answer(3, start + 1, 0, 1)
            if unlinked:
                assert await host.ask(submit_in(start + 3, 512)) == Answer(3, start + 3, 0, 1, b"x")
        assert set(ended) == {True, False}


# Halts.


async def test_halted_endpoints_stall_until_cleared() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512))
        await wait_all_tasks_blocked()
        rig.bus.into.halt()
        rig.bus.out.halt()
        assert await host.answer() == Answer(3, 1, EPIPE)
        assert await host.ask(submit_in(2, 512)) == Answer(3, 2, EPIPE)
        assert await host.ask(submit_out(3, b"refused")) == Answer(3, 3, EPIPE)
        assert await host.ask(control_out(4, CLEAR_HALT_OUT)) == Answer(3, 4, 0)
        assert await host.ask(submit_in(5, 512)) == Answer(3, 5, EPIPE)
        assert await host.ask(control_out(6, CLEAR_HALT_IN)) == Answer(3, 6, 0)
        await host.works()


async def test_large_request_to_a_halted_endpoint_is_read_to_its_end() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        rig.bus.out.halt()
        assert await host.ask(submit_out(1, bytes(4 << 20))) == Answer(3, 1, EPIPE)
        assert await host.ask(control_out(2, CLEAR_HALT_OUT)) == Answer(3, 2, 0)
        await host.works()


async def test_halt_in_the_middle_of_a_request() -> None:
    """What the firmware took counts; the rest of the data leaves the stream in step."""
    async with served(idle) as rig:
        host = await rig.attach()
        rig.bus.out.acknowledge_reset()
        message = submit_out(1, bytes(1 << 20))
        await host.send(message[:400_048])
        await wait_all_tasks_blocked()
        assert len((await rig.bus.out.get_buffer(2048)).data) == 2048
        rig.bus.out.halt()
        assert await host.answer() == Answer(3, 1, EPIPE, 2048)
        await host.send(message[400_048:])
        assert (await host.ask(control_in(2, GET_STATUS))).data == b"\0\0"


async def test_reset_in_the_middle_of_a_request() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        message = submit_out(1, bytes(1 << 20))
        await host.send(message[:500_000], b"")
        await wait_all_tasks_blocked()
        rig.bus.configure(1)
        answer = await host.answer()
        assert (answer.seqnum, answer.status) == (1, ESHUTDOWN)
        await host.send(message[500_000:])
        await host.works()


async def test_set_configuration_ends_what_waits() -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512), submit_in(2, 512), control_out(3, SET_CONFIGURATION))
        assert await host.answers(3) == [
            Answer(3, 1, ESHUTDOWN),
            Answer(3, 2, ESHUTDOWN),
            Answer(3, 3, 0),
        ]
        await host.works()


# Refusals.


@pytest.mark.parametrize("devid", [0, 1, 0x10000, 0x10002, 0x20001, 0xFFFFFFFF])
async def test_wrong_device(devid: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(submit_out(1, b"whose?", devid=devid)) == Answer(3, 1, ENODEV)
        assert await host.ask(submit_in(2, 512, devid=devid)) == Answer(3, 2, ENODEV)
        assert len(caplog.records) == 2
        await host.works()


@pytest.mark.parametrize("endpoint", [2, 15, 16, 0x81, 0x101, 0xFFFFFFFF])
async def test_endpoint_that_does_not_exist(endpoint: int) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        assert await host.ask(submit_out(1, b"x", endpoint)) == Answer(3, 1, EPIPE)
        assert await host.ask(submit_out(2, bytes(1 << 20), endpoint)) == Answer(3, 2, EPIPE)
        assert await host.ask(submit_in(3, 512, endpoint)) == Answer(3, 3, EPIPE)
        await host.works()


async def test_seqnum_that_is_still_pending(caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 512))
        assert await host.ask(submit_in(1, 100)) == Answer(3, 1, EINVAL)
        assert len(caplog.records) == 1
        await host.send(submit_out(2, pattern(200)))
        assert await host.answer() == Answer(3, 2, 0, 200)
        assert await host.answer() == Answer(3, 1, 0, 200, pattern(200))


async def test_more_out_data_in_flight_than_is_kept() -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        half = bytes(MAX_TRANSFER // 2)
        await host.send(submit_out(1, half), submit_out(2, half))
        assert await host.ask(submit_out(3, b"x")) == Answer(3, 3, ENOMEM)
        assert await host.ask(submit_out(4, bytes(1 << 20))) == Answer(3, 4, ENOMEM)
        assert await host.ask(submit_out(5, b""), unlink(6, 5)) == Answer(4, 6, ECONNRESET)
        assert await host.ask(unlink(7, 1)) == Answer(4, 7, ECONNRESET)
        await host.send(submit_out(8, half))
        assert await host.ask(unlink(9, 8)) == Answer(4, 9, ECONNRESET)


async def test_out_data_counts_until_it_is_taken() -> None:
    async with served(sink) as rig:
        host = await rig.attach()
        for seqnum in range(1, 5):
            assert await host.ask(submit_out(seqnum, bytes(MAX_TRANSFER))) == Answer(
                3, seqnum, 0, MAX_TRANSFER
            )


async def test_more_room_asked_for_than_is_kept() -> None:
    async with served(idle) as rig:
        host = await rig.attach()
        await host.send(*(submit_in(number, MAX_TRANSFER) for number in range(1, 5)))
        assert await host.ask(submit_in(5, 1)) == Answer(3, 5, ENOMEM)
        assert await host.ask(unlink(6, 1)) == Answer(4, 6, ECONNRESET)
        assert await host.ask(submit_in(7, 1), unlink(8, 7)) == Answer(4, 8, ECONNRESET)


@pytest.mark.parametrize(
    "one_more", [submit_in(5, 1), submit_out(5, b"x"), control_in(5, GET_STATUS), control_out(5, bytes(8))]
)
async def test_more_requests_than_are_kept(one_more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_requests, "PENDING_LIMIT", 3)
    async with served(idle) as rig:
        host = await rig.attach()
        await host.send(submit_in(1, 1), submit_in(2, 1), submit_out(3, b""))
        assert await host.ask(one_more) == Answer(3, 5, ENOMEM)
        assert await host.ask(unlink(6, 1)) == Answer(4, 6, ECONNRESET)
        await host.send(submit_in(7, 1))
        assert await host.ask(unlink(8, 7)) == Answer(4, 8, ECONNRESET)


async def test_direction_that_is_none(caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as rig:
        host = await rig.attach()
        await host.send(submit(1, 2, 1, 512))
        assert await host.ended() == b""
        (line,) = caplog.records
        assert "request 1 goes in direction 2" in line.getMessage()
        await (await rig.attach()).works()


# Hosts that do not read.


async def test_host_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are kept up to a limit, then nothing more is taken from it; another host feels nothing."""
    senders: list[Sender] = []

    class WatchedSender(Sender):
        def __init__(self, sock: socket.socket) -> None:
            super().__init__(sock)
            senders.append(self)

    monkeypatch.setattr(usbip_connection, "Sender", WatchedSender)
    monkeypatch.setattr(usbip_connection, "UNSENT_LIMIT", 1 << 20)
    monkeypatch.setattr(usbip_requests, "ROOM_LIMIT", 1 << 20)
    async with served(source, loopback) as rig, trio.open_nursery() as nursery:
        host, other = await rig.attach("1-1"), await rig.attach("1-2")
        seqnums = itertools.count(1)

        async def ask_for_ever() -> None:
            while True:
                await host.send(*(submit_in(seqnum, 65_536) for seqnum in itertools.islice(seqnums, 500)))

        nursery.start_soon(ask_for_ever)
        with trio.move_on_after(0.2):
            while True:
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
    async with served(source) as rig, trio.open_nursery() as nursery:
        host = await rig.attach()

        async def ask() -> None:
            for seqnum in range(1, 101):
                await host.send(submit_in(seqnum, 100_352))

        nursery.start_soon(ask)
        for seqnum in range(1, 101):
            answer = await host.answer()
            assert (answer.seqnum, answer.actual, len(answer.data)) == (seqnum, 100_352, 100_352)
