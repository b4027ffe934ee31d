"""The pending requests of a host against a model: each is answered once, and nothing is left or lost."""

import struct
import sys
from dataclasses import dataclass

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.urbs import PendingUrbs
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.xud import UsbReset
from tests.support.peers.usbip_host import ECONNRESET, SET_CONFIGURATION

DEVID = 0x10001
LENGTHS = st.sampled_from([0, 1, 511, 512, 513, 1024, 2000])


@dataclass(frozen=True)
class Out:
    length: int
    zero_packet: bool


@dataclass(frozen=True)
class In:
    length: int


@dataclass(frozen=True)
class Control:
    setup: bytes


@dataclass(frozen=True)
class Unlink:
    back: int
    """Which request: 0 the last one, 1 the one before it, and so on."""


@dataclass(frozen=True)
class Turn:
    """Let the firmware run."""


@dataclass(frozen=True)
class Halt:
    """The firmware halts both endpoints."""


STEPS = st.lists(
    st.one_of(
        st.builds(Out, LENGTHS, st.booleans()),
        st.builds(In, LENGTHS),
        st.builds(
            Control, st.sampled_from([SET_CONFIGURATION, bytes.fromhex("8000000000000200"), b"\xff" * 8])
        ),
        st.builds(Unlink, st.integers(0, 5)),
        st.just(Turn()),
        st.just(Halt()),
    ),
    max_size=40,
)


async def _firmware(bus: UsbBus) -> None:
    while True:
        try:
            await bus.in_endpoint.set_buffer((await bus.out_endpoint.get_buffer(2048)).data)
        except UsbReset:
            bus.out_endpoint.acknowledge_reset()
            bus.in_endpoint.acknowledge_reset()


class Answers:
    """The messages that a `PendingUrbs` puts, taken apart."""

    def __init__(self) -> None:
        self.stream = bytearray()

    def put(self, *parts: bytes | memoryview) -> None:
        self.stream += b"".join(parts)

    def take(self, inwards: set[int]) -> list[tuple[int, int, int, int]]:
        """Message, seqnum, status, actual length of each; the data of IN requests must follow."""
        taken = []
        while self.stream:
            message, seqnum, status, actual = struct.unpack(">II12xii", self.stream[:28])
            size = 48 + (actual if message == 3 and seqnum in inwards else 0)
            assert len(self.stream) >= size
            del self.stream[:size]
            taken.append((message, seqnum, status, actual))
        return taken


@given(STEPS)
def test_every_request_is_answered_once(steps: list[object]) -> None:
    trio.run(_check, steps)


async def _check(steps: list[object]) -> None:
    bus, answers = UsbBus(aisrv_descriptors()), Answers()
    requests = PendingUrbs(bus, DEVID, answers.put)
    lengths: dict[int, int] = {}
    inwards: set[int] = set()
    unlinks: dict[int, int] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(usb_ep0, bus)
        nursery.start_soon(_firmware, bus)
        bus.configure(1)
        for seqnum, step in enumerate(steps, 1):
            match step:
                case Out(length, zero_packet):
                    lengths[seqnum] = length
                    flags = 0x40 if zero_packet else 0
                    requests.submit_out(seqnum, DEVID, 1, flags, length, bytes(8), bytes(length))
                case In(length):
                    lengths[seqnum] = length
                    inwards.add(seqnum)
                    requests.submit_in(seqnum, DEVID, 1, length, bytes(8))
                case Control(setup):
                    lengths[seqnum] = 2
                    if setup[0] & 0x80:
                        inwards.add(seqnum)
                        requests.submit_in(seqnum, DEVID, 0, 2, setup)
                    else:
                        requests.submit_out(seqnum, DEVID, 0, 0, 0, setup, b"")
                case Unlink(back):
                    unlinks[seqnum] = seqnum - 1 - back
                    requests.unlink(seqnum, unlinks[seqnum])
                case Turn():
                    await wait_all_tasks_blocked()
                case Halt():
                    bus.in_endpoint.halt()
                    bus.out_endpoint.halt()
        await wait_all_tasks_blocked()
        bus.reset()  # ends what still waits
        nursery.cancel_scope.cancel()

    taken = answers.take(inwards)
    replies = [seqnum for message, seqnum, _, _ in taken if message == 3]
    confirmed = {seqnum: status for message, seqnum, status, _ in taken if message == 4}
    taken_back = {unlinks[seqnum] for seqnum, status in confirmed.items() if status == ECONNRESET}
    assert set(confirmed) == set(unlinks)
    assert len(replies) == len(set(replies))
    assert not taken_back & set(replies)
    assert taken_back | set(replies) == set(lengths)
    assert all(0 <= actual <= lengths[seqnum] for message, seqnum, _, actual in taken if message == 3)
    assert (requests.untaken, requests.awaited) == (0, 0)
    assert (bus.out_endpoint.pending, bus.in_endpoint.pending) == (0, 0)


def test_data_of_a_request_that_has_ended_are_dropped() -> None:
    bus, answers = UsbBus(aisrv_descriptors()), Answers()
    requests = PendingUrbs(bus, DEVID, answers.put)
    bus.configure(1)
    request = requests.submit_out(1, DEVID, 1, 0, 2000, bytes(8), bytes(1000))
    assert request is not None
    bus.reset()
    assert answers.stream == bytes.fromhex(
        "00000003 00000001 000000000000000000000000 ffffff94 00000000"
    ) + bytes(4) + b"\xff" * 4 + bytes(12)
    piece = bytes(1000)
    held = sys.getrefcount(piece)
    requests.feed(request, piece)
    assert sys.getrefcount(piece) == held
