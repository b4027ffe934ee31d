"""Control transfers in device time: each takes its bytes and a turn for each stage, to the tick."""

from collections.abc import Sequence

import pytest
import trio

from aisrv.board import Board
from aisrv.protocol.usb_descriptors import SetupPacket
from phy.usb.bus import ControlUrb
from phy.usb.urb import TransferStatus
from tests.support.benches.device_time import on_virtual_time, ticks, timed_device

TURNS = 3 * 830
DEVICE_DESCRIPTOR = SetupPacket(0x80, 6, 0x0100, 0, 18)
EIGHT_BYTES = SetupPacket(0x80, 6, 0x0100, 0, 8)
SET_CONFIGURATION = SetupPacket(0x00, 9, 1, 0, 0)
UNKNOWN = SetupPacket(0x80, 6, 0x2200, 0, 64)

Ends = list[tuple[int, TransferStatus, int]]


def ends_of(setups: Sequence[SetupPacket], *, apart: float = 0) -> Ends:
    """Ticks since the first was submitted, status and bytes of control transfers to a device that rests."""

    async def main() -> Ends:
        ends: Ends = []
        async with timed_device(board=Board(spi=None)) as device:
            begin = ticks(device)

            def ended(status: TransferStatus, data: bytes) -> None:
                ends.append((ticks(device) - begin, status, len(data)))

            for setup in setups:
                device.usb.submit_control(ControlUrb(setup, b"", ended))
                await trio.sleep(apart)
            await trio.sleep(1)
        return ends

    return on_virtual_time(main)


@pytest.mark.parametrize(
    ("setup", "bus_ticks", "status", "size"),
    [
        (DEVICE_DESCRIPTOR, 319, TransferStatus.OKAY, 18),  # (173 + 18) * 5/3, rounded up
        (EIGHT_BYTES, 302, TransferStatus.OKAY, 8),
        (SET_CONFIGURATION, 289, TransferStatus.OKAY, 0),
        (UNKNOWN, 289, TransferStatus.STALL, 0),
    ],
)
def test_a_transfer_ends_at_its_tick(
    setup: SetupPacket, bus_ticks: int, status: TransferStatus, size: int
) -> None:
    assert ends_of([setup]) == [(bus_ticks + TURNS, status, size)]


def test_transfers_that_are_queued_go_one_after_the_other() -> None:
    ends = ends_of([DEVICE_DESCRIPTOR, SET_CONFIGURATION, EIGHT_BYTES])
    assert [tick for tick, _, _ in ends] == [2_809, 2_809 + 2_779, 2_809 + 2_779 + 2_792]


def test_a_transfer_begins_when_the_host_submits_it() -> None:
    ends = ends_of([DEVICE_DESCRIPTOR, DEVICE_DESCRIPTOR], apart=0.001)
    assert [tick for tick, _, _ in ends] == [2_809, 100_000 + 2_809]
