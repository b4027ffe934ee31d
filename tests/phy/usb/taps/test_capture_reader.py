"""Reading captures: pcapng and pcap, both byte orders and link types, damaged and foreign files."""

import struct
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from phy.usb.taps.capture_reader import MOST_BLOCKS, CaptureError, read_capture
from phy.usb.taps.pcapng import EnhancedPacket, InterfaceDescription, SectionHeader
from phy.usb.taps.usbmon import EventType, TransferType, UsbmonEvent

SUBMIT = UsbmonEvent(
    urb=0x1234,
    event=EventType.SUBMIT,
    transfer=TransferType.BULK,
    endpoint=0x01,
    device=4,
    bus=1,
    timestamp=1_700_000_000_123_456_000,
    status=-115,
    length=3,
    data=b"\x10\x00\x00",
)
CONTROL = replace(
    SUBMIT,
    urb=0x1235,
    transfer=TransferType.CONTROL,
    endpoint=0x00,
    timestamp=1_700_000_000_123_457_000,
    length=0,
    data=b"",
    setup=bytes.fromhex("0201000081000000"),
)

# By hand after the kernel's Documentation/usb/usbmon.rst: a bulk read that ended with GET_ID's answer.
READ_DONE = (
    bytes.fromhex(
        "0012000000000000 43 03 81 04 0100 2d 00 00f1536500000000 40e20100 00000000 04000000 04000000"
        " 0000000000000000 00000000 00000000 00020000 00000000".replace(" ", "")
    )
    + b"\x78\x56\x34\x12"
)


def pcapng(*packets: bytes, link_type: int = 220) -> bytes:
    head = bytes(SectionHeader("test")) + bytes(InterfaceDescription(link_type, 1 << 16, "1-1", ""))
    return head + b"".join(bytes(EnhancedPacket(0, 0, packet, len(packet))) for packet in packets)


def pcap(*packets: bytes, link_type: int = 220, order: str = "<") -> bytes:
    head = struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, link_type)
    return head + b"".join(
        struct.pack(f"{order}IIII", 0, 0, len(packet), len(packet)) + packet for packet in packets
    )


@pytest.mark.parametrize("write", [pcapng, pcap, lambda *packets: pcap(*packets, order=">")])
def test_events_are_read_as_they_were_written(write: Callable[..., bytes]) -> None:
    data = write(bytes(SUBMIT), bytes(CONTROL))
    events = list(read_capture(data))
    assert [(each.number, each.event) for each in events] == [(1, SUBMIT), (2, CONTROL)]


def test_event_of_the_kernel_is_read() -> None:
    (read,) = read_capture(pcapng(READ_DONE))
    event = read.event
    assert (event.event, event.transfer, event.endpoint, event.bus, event.device) == (
        EventType.COMPLETE,
        TransferType.BULK,
        0x81,
        1,
        4,
    )
    assert (event.status, event.length, event.data) == (0, 4, b"\x78\x56\x34\x12")


def test_short_header_of_the_older_link_type() -> None:
    packet = bytes(SUBMIT)
    (read,) = read_capture(pcap(packet[:48] + packet[64:], link_type=189))
    assert read.event == SUBMIT


@pytest.mark.parametrize("write", [pcapng, pcap])
def test_file_of_a_killed_process_gives_what_is_whole(write: Callable[..., bytes]) -> None:
    data = bytes(write(bytes(SUBMIT), bytes(CONTROL)))
    whole = len(bytes(write(bytes(SUBMIT))))
    for size in (whole, whole + 1, whole + 11, whole + 17, len(data) - 1):
        capture = read_capture(data[:size])
        assert [each.event for each in capture] == [SUBMIT]
        assert capture.cut_at == (None if size == whole else whole)
    assert read_capture(data).cut_at is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither a pcapng nor a pcap file"),
        (b"GET / HTTP/1.1", "neither a pcapng nor a pcap file"),
        (b"\xd4\xc3\xb2\xa1", "a pcap file of 4 bytes is shorter than its header"),
        (pcap(bytes(64), link_type=1), "packet 1 has the link type 1, not that of usbmon"),
        (pcapng(bytes(26), link_type=249), "packet 1 has 26 of the 27 bytes of its header"),
        (pcapng(bytes(63)), "packet 1 has 63 of the 64 bytes of its header"),
        (
            pcapng(bytes(SUBMIT), bytes(64)),
            "packet 2 has an event of type 0, which usbmon does not know",
        ),
        (bytes(SectionHeader("x")) + bytes(12), "cannot have 0 bytes"),
        (bytes(SectionHeader("x")) + struct.pack("<III", 1, 13, 13), "cannot have 13 bytes"),
        (bytes(SectionHeader("x")) + bytes(EnhancedPacket(0, 0, b"1234", 4)), "is of an unknown interface 0"),
        (b"\n\r\r\n" + bytes(24), "has no byte order mark"),
    ],
)
def test_what_is_no_capture_of_usb_is_named(data: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        list(read_capture(data))


EMPTY_BLOCK = struct.pack("<III", 0xBAD, 12, 12)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes(SectionHeader("x")) + EMPTY_BLOCK * MOST_BLOCKS, id="pcapng"),
        pytest.param(
            pcap(*[bytes(SUBMIT)] * (MOST_BLOCKS + 1)), id="pcap", marks=pytest.mark.long("as in a pcapng")
        ),
    ],
)
def test_too_many_packets_are_refused(data: bytes) -> None:
    with pytest.raises(CaptureError, match=r"more than 262,144 packets; split it"):
        read_capture(data)


def test_as_many_blocks_as_are_read() -> None:
    capture = read_capture(bytes(SectionHeader("x")) + EMPTY_BLOCK * (MOST_BLOCKS - 1))
    assert (capture.events, capture.cut_at) == ((), None)
