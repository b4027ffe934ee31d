"""Captures of USBPcap: packets by hand after its specification, and what tshark reads in the same files."""

import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phy.usb.taps.capture_reader import CaptureError, read_capture
from phy.usb.taps.usbmon import EventType, TransferType, UsbmonEvent
from phy.usb.taps.usbpcap import ROOM_UNKNOWN
from tests.support.amounts import in_ci
from tests.support.peers.usbpcap_files import packet, usbpcap_file
from tests.support.programs import missing, run_process

IRP = 0xFFFF_BE0C_4455_6610
STALL_PID, CANCELED = 0xC000_0004, 0xC001_0000


def read(*packets: bytes) -> list[UsbmonEvent]:
    return [each.event for each in read_capture(usbpcap_file(*packets))]


# "USBPcap capture format specification": a header of 27 bytes, little-endian, then the data.
BY_HAND = bytes.fromhex(
    "1b00"  # the header's length
    "106655440cbeffff"  # the IRP
    "00000000"  # USBD_STATUS_SUCCESS
    "0900"  # URB_FUNCTION_BULK_OR_INTERRUPT_TRANSFER
    "01"  # from the bus to the driver: it is done
    "0200" + "0500"  # bus 2, device 5
    "81" + "03"  # endpoint 1 IN, bulk
    "04000000"  # 4 bytes
    "78563412"
)


def test_completed_bulk_read() -> None:
    (event,) = read(BY_HAND)
    assert event == UsbmonEvent(
        urb=IRP,
        event=EventType.COMPLETE,
        transfer=TransferType.BULK,
        endpoint=0x81,
        device=5,
        bus=2,
        timestamp=0,
        status=0,
        length=4,
        data=b"\x78\x56\x34\x12",
    )


def test_bulk_write_has_its_data_where_it_begins() -> None:
    (event,) = read(packet(IRP, 0x01, b"\x10\0\0"))
    assert (event.event, event.endpoint, event.length, event.data) == (
        EventType.SUBMIT,
        0x01,
        3,
        b"\x10\0\0",
    )


def test_room_of_a_read_is_not_recorded() -> None:
    (event,) = read(packet(IRP, 0x81))
    assert (event.event, event.length) == (EventType.SUBMIT, ROOM_UNKNOWN)


@pytest.mark.parametrize(
    ("status", "linux"), [(0, 0), (STALL_PID, -32), (0xC000_0030, -32), (CANCELED, -104), (0xC000_0001, -71)]
)
def test_statuses_are_those_of_linux(status: int, linux: int) -> None:
    (event,) = read(packet(IRP, 0x81, done=True, status=status))
    assert event.status == linux


SETUP = bytes.fromhex("8006000100001200")
DEVICE = bytes.fromhex("12010002ffffff40b1205ea1001001020001")


@pytest.mark.parametrize(
    "end",
    [
        [packet(IRP, 0x80, DEVICE, done=True, stage=3)],
        [packet(IRP, 0x80, DEVICE, done=True, stage=1), packet(IRP, 0x80, done=True, stage=2)],
    ],
    ids=["in one packet", "in two, as early versions"],
)
def test_control_transfer_is_two_events(end: list[bytes]) -> None:
    begin, done = read(packet(IRP, 0x80, SETUP, stage=0), *end)
    assert (begin.endpoint, begin.setup, begin.length, begin.data) == (0x80, SETUP, 18, b"")
    assert (done.event, done.status, done.length, done.data) == (EventType.COMPLETE, 0, 18, DEVICE)


def test_refused_control_transfer() -> None:
    _, done = read(packet(IRP, 0x80, SETUP, stage=0), packet(IRP, 0x80, done=True, stage=3, status=STALL_PID))
    assert (done.status, done.length) == (-32, 0)


def test_out_data_of_a_control_transfer_follow_its_setup_packet() -> None:
    setup = bytes.fromhex("2109000200000300")
    (event,) = read(packet(IRP, 0x00, setup + b"abc", stage=0))
    assert (event.endpoint, event.setup, event.length, event.data) == (0, setup, 3, b"abc")


def test_out_data_in_a_packet_of_their_own_are_missing() -> None:
    setup = bytes.fromhex("2109000200000300")
    (event,) = read(packet(IRP, 0x00, setup, stage=0), packet(IRP, 0x00, b"abc", stage=1))
    assert (event.length, event.data) == (3, b"")


@pytest.mark.parametrize("transfer", [4, 0xFE, 0xFF])
def test_what_is_no_transfer_is_passed_over(transfer: int) -> None:
    assert read(packet(IRP, 0x81, transfer=transfer)) == []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (BY_HAND[:26], "packet 1 has 26 of the 27 bytes of its header"),
        (b"\x1a" + BY_HAND[1:], "packet 1 has a header of 26 in a packet of 31 bytes"),
        (b"\xff\xff" + BY_HAND[2:], "packet 1 has a header of 65535 in a packet of 31 bytes"),
        (packet(IRP, 0x80, SETUP, stage=0)[:27].replace(b"\x1c\0", b"\x1b\0", 1), "without the byte"),
        (packet(IRP, 0x80, SETUP[:7], stage=0), "packet 1 has 7 of the 8 bytes of its SETUP packet"),
    ],
)
def test_broken_packets_are_named(broken: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        read(broken)


def test_lengths_that_the_packet_does_not_have_are_told_but_not_believed() -> None:
    whole = packet(IRP, 0x01, b"abc")
    lying = whole[:23] + struct.pack("<I", 0xFFFF_FFFF) + whole[27:]
    (event,) = read(lying)
    assert (event.length, event.data) == (0xFFFF_FFFF, b"abc")


@given(st.lists(st.binary(max_size=60), max_size=5))
@settings(derandomize=True, max_examples=in_ci(300, every_day=60), deadline=None)
def test_any_packets_are_read_or_refused(packets: list[bytes]) -> None:
    with suppress(CaptureError):
        assert len(read(*packets)) <= len(packets)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**64 - 1),
            st.sampled_from([0x01, 0x81, 0x02, 0x83]),
            st.binary(max_size=40),
            st.booleans(),
        ),
        max_size=8,
    )
)
@settings(derandomize=True, max_examples=in_ci(200, every_day=50), deadline=None)
def test_bulk_packets_come_back(packets: list[tuple[int, int, bytes, bool]]) -> None:
    events = read(*(packet(irp, endpoint, data, done=done) for irp, endpoint, data, done in packets))
    assert [(each.urb, each.endpoint, each.event is EventType.COMPLETE) for each in events] == [
        (irp, endpoint, done) for irp, endpoint, _, done in packets
    ]


def test_tshark_reads_the_same(tmp_path: Path) -> None:
    tshark = shutil.which("tshark") or missing(
        "Debian's package tshark is not installed; .ci/packages does that"
    )
    path = tmp_path / "usb.pcap"
    path.write_bytes(
        usbpcap_file(
            BY_HAND,
            packet(IRP, 0x80, SETUP, stage=0),
            packet(IRP, 0x80, done=True, stage=3, status=STALL_PID),
        )
    )
    names = ("usb.irp_id", "usb.usbd_status", "usb.bus_id", "usb.device_address", "usb.endpoint_address")
    chosen = [part for name in names for part in ("-e", name)]
    done = run_process([tshark, "-r", str(path), "-T", "fields", "-E", "separator=|", *chosen])
    assert done.stdout.splitlines() == [
        "0xffffbe0c44556610|0x00000000|2|5|0x81",
        "0xffffbe0c44556610|0x00000000|1|1|0x80",
        "0xffffbe0c44556610|0xc0000004|1|1|0x80",
    ]
