"""USB/IP messages as values, against the kernel document's capture and the PyPI package `usbip`."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from usbip import protocol

from aisrv.protocol.usbip import (
    DeviceRecord,
    Operation,
    OperationHeader,
    Submit,
    SubmitReply,
    Unlink,
    UnlinkReply,
    UrbStatus,
    UsbipError,
    pack_busid,
    unpack_busid,
)

# "USB/IP protocol" in the Linux kernel's documentation, section EXAMPLE: an interrupt IN and OUT of 64 bytes.
CAPTURED_SUBMIT_IN = bytes.fromhex(
    "00000001 00000d05 0001000f 00000001 00000001 00000200 "
    "00000040 ffffffff 00000000 00000004 00000000 00000000"
)
CAPTURED_SUBMIT_OUT = bytes.fromhex(
    "00000001 00000d06 0001000f 00000000 00000001 00000000 "
    "00000040 ffffffff 00000000 00000004 00000000 00000000"
)
CAPTURED_REPLY = bytes.fromhex(
    "00000003 00000d05 00000000 00000000 00000000 00000000 "
    "00000040 ffffffff 00000000 00000000 00000000 00000000"
)

RECORD = DeviceRecord(
    busid="1-2.3",
    path="/sys/devices/virtual/1-2.3",
    bus_number=1,
    device_number=7,
    speed=3,
    vendor=0x20B1,
    product=0xA15E,
    bcd_device=0x1000,
    device_class=0xFF,
    device_subclass=0xFE,
    device_protocol=0xFD,
    configuration_value=1,
    configuration_count=2,
    interface_count=3,
)

u8, u16, u32, i32 = (
    st.integers(0, 0xFF),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFFFFFF),
    st.integers(-(1 << 31), (1 << 31) - 1),
)
busids = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=31)


def test_captured_in_request() -> None:
    assert Submit.from_bytes(CAPTURED_SUBMIT_IN) == Submit(
        0xD05, 0x1000F, 1, 1, length=64, flags=0x200, iso_packets=0
    )


def test_captured_out_request() -> None:
    assert Submit.from_bytes(CAPTURED_SUBMIT_OUT) == Submit(0xD06, 0x1000F, 0, 1, length=64, iso_packets=0)


def test_captured_reply() -> None:
    assert SubmitReply.from_bytes(CAPTURED_REPLY) == SubmitReply(0xD05, 0, 64, 0)


def test_submit_differs_from_the_capture_in_iso_fields_alone() -> None:
    ours = bytes(Submit(0xD05, 0x1000F, 1, 1, length=64, flags=0x200))
    assert ours[:28] == CAPTURED_SUBMIT_IN[:28]
    assert ours[28:40] == bytes.fromhex("00000000 ffffffff 00000000")
    assert ours[40:] == bytes(8)


def test_setup_packet_is_carried_as_it_is() -> None:
    setup = bytes.fromhex("80 06 00 01 00 00 12 00")
    assert bytes(Submit(1, 0x10002, 1, 0, length=18, setup=setup))[40:] == setup


def test_unlink_bytes() -> None:
    assert bytes(Unlink(9, 0x10002, 8)) == bytes.fromhex(
        "00000002 00000009 00010002 00000000 00000000 00000008"
    ) + bytes(24)


def test_unlink_reply_bytes() -> None:
    expected = bytes.fromhex("00000004 00000009 00000000 00000000 00000000 ffffff98") + bytes(24)
    assert bytes(UnlinkReply(9, UrbStatus.UNLINKED)) == expected


def test_stall_reply_bytes() -> None:
    assert bytes(SubmitReply(5, UrbStatus.STALL, 0))[20:28] == bytes.fromhex("ffffffe0 00000000")


def test_operation_bytes() -> None:
    assert bytes(OperationHeader(code=Operation.REQ_DEVLIST)) == bytes.fromhex("0111 8005 00000000")
    assert bytes(OperationHeader(code=Operation.REQ_IMPORT)) == bytes.fromhex("0111 8003 00000000")
    assert bytes(OperationHeader(code=Operation.REP_IMPORT, status=1)) == bytes.fromhex("0111 0003 00000001")


def test_sizes() -> None:
    kinds = (OperationHeader, DeviceRecord, Submit, SubmitReply, Unlink, UnlinkReply)
    assert [kind.SIZE for kind in kinds] == [8, 312, 48, 48, 48, 48]


def test_record_layout() -> None:
    data = bytes(RECORD)
    assert data[:256] == b"/sys/devices/virtual/1-2.3".ljust(256, b"\0")
    assert data[256:288] == b"1-2.3".ljust(32, b"\0")
    assert data[288:] == bytes.fromhex("00000001 00000007 00000003 20b1 a15e 1000 ff fe fd 01 02 03")


def test_record_is_read_by_another_implementation() -> None:
    assert protocol.parse_usb_device(bytes(RECORD)) == {
        "busid": "1-2.3",
        "busnum": 1,
        "devnum": 7,
        "speed": 3,
        "idVendor": 0x20B1,
        "idProduct": 0xA15E,
        "bcdDevice": 0x1000,
        "bNumConfigurations": 2,
        "bNumInterfaces": 3,
    }


def test_devid_is_bus_over_device() -> None:
    assert RECORD.devid == 0x00010007


def test_long_path_is_cut_and_stays_terminated() -> None:
    assert DeviceRecord.from_bytes(bytes(DeviceRecord(busid="1-1", path="x" * 300))).path == "x" * 255


@pytest.mark.parametrize("length", [0, 1, 31])
def test_busid_that_fits(length: int) -> None:
    assert unpack_busid(pack_busid("b" * length)) == "b" * length


@pytest.mark.parametrize("busid", ["b" * 32, "é" * 16, "1-1\0x"])
def test_busid_that_does_not_fit(busid: str) -> None:
    with pytest.raises(UsbipError, match="bus id"):
        pack_busid(busid)


def test_busid_of_arbitrary_bytes_is_shown_escaped() -> None:
    assert unpack_busid(b"\xff1\0junk") == "\\xff1"


@pytest.mark.parametrize("kind", [Submit, SubmitReply, Unlink, UnlinkReply])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 47])
def test_truncated_header(kind: type[Submit], size: int) -> None:
    with pytest.raises(UsbipError, match=f"has 48 bytes, not {size}$"):
        kind.from_bytes(bytes(size))


@pytest.mark.parametrize(
    ("kind", "code"), [(Submit, 2), (Submit, 3), (SubmitReply, 1), (Unlink, 4), (UnlinkReply, 2), (Submit, 0)]
)
def test_wrong_message(kind: type[Submit], code: int) -> None:
    with pytest.raises(UsbipError, match=f"got message {code}$"):
        kind.from_bytes(struct.pack(">I44x", code))


@pytest.mark.parametrize("size", [0, 7])
def test_truncated_operation(size: int) -> None:
    with pytest.raises(UsbipError, match=f"has 8 bytes, not {size}$"):
        OperationHeader.from_bytes(bytes(size))


@pytest.mark.parametrize("size", [0, 311])
def test_truncated_record(size: int) -> None:
    with pytest.raises(UsbipError, match=f"has 312 bytes, not {size}$"):
        DeviceRecord.from_bytes(bytes(size))


@settings(derandomize=True, max_examples=50)
@given(
    st.builds(
        Submit,
        u32,
        u32,
        st.integers(0, 1),
        u32,
        length=st.integers(0, 1 << 24),
        setup=st.binary(min_size=8, max_size=8),
        flags=u32,
    )
)
def test_submit_round_trip(value: Submit) -> None:
    assert Submit.from_bytes(bytes(value)) == value


@settings(derandomize=True, max_examples=50)
@given(
    st.one_of(
        st.builds(SubmitReply, u32, i32, i32),
        st.builds(UnlinkReply, u32, i32),
        st.builds(Unlink, u32, u32, u32),
    )
)
def test_reply_and_unlink_round_trip(value: SubmitReply | UnlinkReply | Unlink) -> None:
    assert type(value).from_bytes(bytes(value)) == value


@settings(derandomize=True, max_examples=50)
@given(st.builds(DeviceRecord, busid=busids, device_number=u32, vendor=u16, interface_count=u8, path=busids))
def test_record_round_trip(value: DeviceRecord) -> None:
    assert DeviceRecord.from_bytes(bytes(value)) == value
