"""Pairing the events of captures, good ones and hostile ones."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aisrv.addons.captures.replay.transfers import MAX_IN_FLIGHT, devices_of, transfers_of
from phy.usb.taps.capture_reader import CapturedEvent, CaptureError, read_capture
from phy.usb.taps.usbmon import EventType, TransferType, UsbmonEvent
from phy.usb.taps.usbpcap import ROOM_UNKNOWN
from tests.support.amounts import in_ci

RECORDINGS = Path(__file__).parents[3] / "recordings"
DEVICE = (1, 4)
SECOND = 1_000_000_000


def submit(urb: int, endpoint: int = 0x81, length: int = 512, data: bytes = b"") -> UsbmonEvent:
    return UsbmonEvent(
        urb, EventType.SUBMIT, TransferType.BULK, endpoint, 4, 1, SECOND, -115, length or len(data), data
    )


def complete(urb: int, endpoint: int = 0x81, data: bytes = b"", status: int = 0) -> UsbmonEvent:
    return UsbmonEvent(
        urb, EventType.COMPLETE, TransferType.BULK, endpoint, 4, 1, 3 * SECOND, status, len(data), data
    )


def numbered(*events: UsbmonEvent) -> list[CapturedEvent]:
    return [CapturedEvent(number, event) for number, event in enumerate(events, 1)]


def test_several_in_flight_keep_where_they_began_and_ended() -> None:
    found = transfers_of(
        numbered(submit(1), submit(2), complete(2, data=b"b"), complete(1, data=b"a")), DEVICE
    )
    assert [(each.number, each.end, each.received) for each in found] == [(1, 4, b"a"), (2, 3, b"b")]


def test_duration_is_that_of_the_capture() -> None:
    (found,) = transfers_of(numbered(submit(1), complete(1)), DEVICE)
    assert found.seconds == 2.0


def test_time_that_runs_backwards_is_none() -> None:
    (found,) = transfers_of(numbered(submit(1), replace(complete(1), timestamp=0)), DEVICE)
    assert found.seconds == 0.0


@pytest.mark.parametrize(
    ("events", "numbers"),
    [
        ([complete(1)], []),
        ([submit(1)], []),
        ([complete(1), submit(1)], []),
        ([submit(1), submit(1), complete(1)], [2]),
        ([submit(1), complete(1), complete(1)], [1]),
        ([submit(1), replace(complete(1), event=EventType.ERROR)], []),
        ([submit(1), replace(complete(1), event=EventType.ERROR), complete(1)], []),
    ],
    ids=[
        "begun before the capture",
        "without an end",
        "end before the beginning",
        "the same number twice",
        "two ends",
        "refused by the host",
        "ended after it was refused",
    ],
)
def test_events_out_of_order_make_no_transfers(events: Sequence[UsbmonEvent], numbers: list[int]) -> None:
    assert [each.number for each in transfers_of(numbered(*events), DEVICE)] == numbers


def test_out_data_that_were_not_kept_cannot_be_played() -> None:
    begin = replace(submit(1, 0x01, 200), data=bytes(100))
    with pytest.raises(CaptureError, match="packet 1 has 100 of 200 bytes that the host sent; record with"):
        transfers_of(numbered(begin, complete(1, 0x01)), DEVICE)


@pytest.mark.parametrize("length", [(16 << 20) + 1, 0xFFFF_FFFF])
def test_request_that_no_host_makes(length: int) -> None:
    with pytest.raises(CaptureError, match=f"packet 1 is a request for {length:,} bytes; at most 16,777,216"):
        transfers_of(numbered(submit(1, length=length), complete(1)), DEVICE)


def test_more_in_flight_than_a_host_can_have() -> None:
    count = MAX_IN_FLIGHT // (16 << 20)
    requests = [submit(number, length=16 << 20) for number in range(count + 1)]
    ends = [complete(number) for number in range(count + 1)]
    assert len(transfers_of(numbered(*requests[:count], *ends[:count]), DEVICE)) == count
    with pytest.raises(
        CaptureError, match=f"with packet {count + 1} more than 67,108,864 bytes are in flight"
    ):
        transfers_of(numbered(*requests, *ends), DEVICE)


def test_as_many_one_after_another_are_fine() -> None:
    pairs = [event for number in range(9) for event in (submit(number, length=16 << 20), complete(number))]
    assert len(transfers_of(numbered(*pairs), DEVICE)) == 9


@pytest.mark.parametrize(("length", "room"), [(0, 512), (4, 512), (511, 512), (512, 1024), (1024, 1536)])
def test_room_that_was_not_recorded_takes_the_end_of_the_answer(length: int, room: int) -> None:
    begin = replace(submit(1), length=ROOM_UNKNOWN)
    (found,) = transfers_of(numbered(begin, complete(1, data=bytes(length))), DEVICE)
    assert found.wanted == room


def test_answer_longer_than_it_says_is_cut() -> None:
    (found,) = transfers_of(numbered(submit(1), replace(complete(1, data=b"abc"), length=2)), DEVICE)
    assert (found.length, found.received) == (2, b"ab")


def test_devices_are_those_with_bulk_transfers() -> None:
    hub = replace(submit(9), transfer=TransferType.INTERRUPT, device=1)
    other = replace(submit(8), bus=2)
    assert devices_of(numbered(hub, submit(1), other, submit(2))) == [(1, 4), (2, 4)]


@given(st.data())
@settings(derandomize=True, max_examples=in_ci(150, every_day=30), deadline=None)
def test_damaged_recordings_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray((RECORDINGS / "descriptors.pcapng").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    kept = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with suppress(CaptureError):
        events = list(read_capture(kept))
        for device in devices_of(events):
            for transfer in transfers_of(events, device):
                assert transfer.number < transfer.end
