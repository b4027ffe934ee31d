"""Endpoint 0 for firmware that answers itself: stages, calls that fit none, halts, resets."""

from collections import deque

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.firmware.usb_control_pipe import ControlPipe, NewSetup
from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.xcore.waiter import Waiter
from phy.usb.bus import ControlUrb
from phy.usb.urb import TransferStatus
from phy.usb.xud import UsbReset
from tests.support.peers.usb_host import pattern

OKAY, STALL, SHUTDOWN = TransferStatus.OKAY, TransferStatus.STALL, TransferStatus.SHUTDOWN
IN, OUT = 0x80, 0x00


class Bench:
    """A pipe, and the host's side of it."""

    def __init__(self) -> None:
        self.waiting: deque[ControlUrb] = deque()
        self.firmware: Waiter[ControlUrb] = Waiter()
        self.done: list[SetupPacket] = []
        self.pipe = ControlPipe(self._get_setup, lambda: bool(self.waiting), self.done.append)

    async def _get_setup(self) -> ControlUrb:
        return self.waiting.popleft() if self.waiting else await self.firmware.wait()

    def submit(
        self, request_type: int = 0xC0, length: int = 0, data: bytes = b""
    ) -> tuple[SetupPacket, list[tuple[TransferStatus, bytes]]]:
        """Begin a transfer; return its SETUP packet and how it ends."""
        ended: list[tuple[TransferStatus, bytes]] = []
        setup = SetupPacket(request_type, 1, 2, 3, length)
        urb = ControlUrb(setup, data, lambda *end: ended.append(end))
        if not self.firmware.wake(urb):
            self.waiting.append(urb)
        self.pipe.check_setup()
        return setup, ended


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_setup_comes_as_the_host_sent_it(bench: Bench) -> None:
    setup, ended = bench.submit(0xC0, 8)
    assert await bench.pipe.get_setup() == setup
    assert ended == []


# IN: packets of 64 bytes; a shorter one, or as much as the host wants, ends them.


@pytest.mark.parametrize(
    ("wanted", "packets"),
    [
        (64, [0]),
        (64, [1]),
        (64, [63]),
        (64, [64]),
        (65, [64, 0]),
        (65, [64, 1]),
        (128, [64, 64]),
        (200, [64, 64, 0]),
        (200, [64, 64, 63]),
        (1, [1]),
    ],
)
async def test_data_to_the_host_and_its_status(bench: Bench, wanted: int, packets: list[int]) -> None:
    setup, ended = bench.submit(0xC0, wanted)
    await bench.pipe.get_setup()
    data = pattern(sum(packets))
    at = 0
    for size in packets:
        await bench.pipe.put_packet(data[at : at + size])
        at += size
    assert (ended, bench.done) == ([], [])
    assert await bench.pipe.get_packet() == b""
    assert (ended, bench.done) == ([(OKAY, data)], [setup])


async def test_more_data_than_the_host_wants_are_cut(bench: Bench) -> None:
    _, ended = bench.submit(0xC0, 10)
    await bench.pipe.get_setup()
    await bench.pipe.put_packet(pattern(64))
    await bench.pipe.get_packet()
    assert ended == [(OKAY, pattern(64)[:10])]


# OUT.


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 130])
async def test_data_from_the_host_and_its_status(bench: Bench, size: int) -> None:
    _, ended = bench.submit(0x40, size, pattern(size))
    await bench.pipe.get_setup()
    got = [await bench.pipe.get_packet() for _ in range(-(-size // 64))]
    assert got == [pattern(size)[at : at + 64] for at in range(0, size, 64)]
    assert ended == []
    await bench.pipe.put_packet(b"")
    assert ended == [(OKAY, b"")]


@pytest.mark.parametrize("request_type", [0x40, 0xC0])
async def test_no_data_have_a_status_to_the_host(bench: Bench, request_type: int) -> None:
    _, ended = bench.submit(request_type)
    await bench.pipe.get_setup()
    await bench.pipe.put_packet(b"")
    assert ended == [(OKAY, b"")]


async def test_a_status_with_data_is_none(bench: Bench) -> None:
    setup, ended = bench.submit(0x40)
    await bench.pipe.get_setup()
    await bench.pipe.put_packet(b"x")
    assert (ended, bench.done) == ([(TransferStatus.OVERFLOW, b"")], [])
    assert setup.length == 0


# Halts.


@pytest.mark.parametrize("request_type", [0x40, 0xC0])
@pytest.mark.parametrize("length", [0, 8])
async def test_both_directions_halted_refuse_any_request(
    bench: Bench, request_type: int, length: int
) -> None:
    _, ended = bench.submit(request_type, length, bytes(length) if request_type == 0x40 else b"")
    await bench.pipe.get_setup()
    bench.pipe.stall(OUT)
    bench.pipe.stall(IN)
    assert ended == [(STALL, b"")]
    assert (bench.pipe.is_stalled(OUT), bench.pipe.is_stalled(IN)) == (True, True)


async def test_a_halt_of_the_other_direction_ends_the_transfer_at_its_status(bench: Bench) -> None:
    _, ended = bench.submit(0xC0, 8)
    await bench.pipe.get_setup()
    bench.pipe.stall(OUT)
    assert ended == []
    await bench.pipe.put_packet(b"data")
    assert ended == [(STALL, b"")]


async def test_the_next_setup_ends_halts(bench: Bench) -> None:
    bench.pipe.stall(OUT)
    bench.pipe.stall(IN)
    _, ended = bench.submit(0xC0, 8)
    await bench.pipe.get_setup()
    await bench.pipe.put_packet(b"data")
    await bench.pipe.get_packet()
    assert ended == [(OKAY, b"data")]


async def test_a_halt_that_is_cleared(bench: Bench) -> None:
    _, ended = bench.submit(0xC0, 8)
    await bench.pipe.get_setup()
    bench.pipe.stall(OUT)
    bench.pipe.clear_stall(OUT)
    await bench.pipe.put_packet(b"data")
    await bench.pipe.get_packet()
    assert ended == [(OKAY, b"data")]


# Calls that fit no stage, and hosts that give up.


async def waits_in_vain(bench: Bench, *, into: bool) -> list[str]:
    """Call for a packet where the host expects none; return how that ended once another SETUP had come."""
    ended: list[str] = []

    async def call() -> None:
        try:
            await (bench.pipe.put_packet(b"x") if into else bench.pipe.get_packet())
            ended.append("moved")
        except NewSetup:
            ended.append("new setup")
        except UsbReset:
            ended.append("reset")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await wait_all_tasks_blocked()
        assert ended == []
        bench.submit(0x40)
        await wait_all_tasks_blocked()
        if not ended:
            bench.pipe.reset()
            await wait_all_tasks_blocked()
    return ended


@pytest.mark.parametrize("into", [False, True])
async def test_a_packet_of_no_transfer_waits_for_the_next_one(bench: Bench, into: bool) -> None:
    assert await waits_in_vain(bench, into=into) == ["new setup"]
    assert (await bench.pipe.get_setup()).request_type == 0x40


@pytest.mark.parametrize("into", [False, True])
async def test_a_packet_of_no_transfer_fails_at_once_where_one_waits(bench: Bench, into: bool) -> None:
    bench.submit(0x40)
    with pytest.raises(NewSetup):
        await (bench.pipe.put_packet(b"") if into else bench.pipe.get_packet())


async def test_a_packet_of_the_wrong_direction_waits_while_the_host_does(bench: Bench) -> None:
    _, ended = bench.submit(0xC0, 8)
    await bench.pipe.get_setup()
    assert await waits_in_vain(bench, into=False) == ["reset"]
    assert ended == [(SHUTDOWN, b"")]


async def test_a_host_that_gives_up_lets_the_next_transfer_begin(bench: Bench) -> None:
    setup, ended = bench.submit(0xC0, 8)
    await bench.pipe.get_setup()
    assert bench.pipe.abandon(setup)
    assert not bench.pipe.abandon(setup)
    bench.submit(0x40)
    with pytest.raises(NewSetup):
        await bench.pipe.put_packet(b"too late")
    assert ended == []


async def test_another_transfer_of_the_same_words_is_another_one(bench: Bench) -> None:
    setup, _ = bench.submit(0xC0, 8)
    await bench.pipe.get_setup()
    assert not bench.pipe.abandon(SetupPacket.from_bytes(bytes(setup)))


# Resets.


@pytest.mark.parametrize("packets", [0, 1])
async def test_a_reset_ends_the_transfer(bench: Bench, packets: int) -> None:
    _, ended = bench.submit(0xC0, 200)
    await bench.pipe.get_setup()
    for _ in range(packets):
        await bench.pipe.put_packet(bytes(64))
    bench.pipe.stall(OUT)
    bench.pipe.reset()
    assert ended == [(SHUTDOWN, b"")]
    assert not bench.pipe.is_stalled(OUT)
