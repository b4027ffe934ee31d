"""Descriptors byte by byte, and what malformed SETUP packets give."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.usb_descriptors import (
    ConfigurationDescriptor,
    DescriptorError,
    Descriptors,
    DeviceDescriptor,
    EndpointDescriptor,
    InterfaceDescriptor,
    SetupPacket,
    aisrv_descriptors,
    string_descriptor,
)

# USB 2.0, tables 9-8 to 9-13, filled in by hand with the values of the AI server.
DEVICE = bytes.fromhex(
    "12"  # bLength 18
    "01"  # bDescriptorType DEVICE
    "0002"  # bcdUSB 2.00
    "ff ff ff"  # class, subclass, protocol
    "40"  # bMaxPacketSize0 64
    "b120"  # idVendor 0x20B1
    "5ea1"  # idProduct 0xA15E
    "0010"  # bcdDevice 0x1000
    "01 02 00"  # iManufacturer, iProduct, no iSerialNumber
    "01"  # bNumConfigurations
)
CONFIGURATION = bytes.fromhex(
    "09 02 2000 01 01 00 80 fa"  # 32 bytes in all, 1 interface, value 1, no string, bus-powered, 500 mA
    "09 04 00 00 02 ff ff ff 03"  # interface 0, alternate 0, 2 endpoints, vendor specific, string 3
    "07 05 01 02 0002 01"  # endpoint 1 OUT, bulk, 512 bytes, interval 1
    "07 05 81 02 0002 01"  # endpoint 1 IN
)
QUALIFIER = bytes.fromhex("0a 06 0002 ff ff ff 40 01 00")  # table 9-9
OTHER_SPEED = CONFIGURATION[:1] + b"\x07" + CONFIGURATION[2:]  # table 9-11: the type apart like table 9-10
LANGUAGES = bytes.fromhex("04 03 0904")
MANUFACTURER = bytes.fromhex("0a 03") + b"X\0M\0O\0S\0"
PRODUCT = bytes.fromhex("0e 03") + b"x\0A\0I\0S\0R\0V\0"
CONFIG = bytes.fromhex("0e 03") + b"C\0o\0n\0f\0i\0g\0"


@pytest.mark.parametrize(
    ("descriptor_type", "index", "expected"),
    [
        (1, 0, DEVICE),
        (2, 0, CONFIGURATION),
        (3, 0, LANGUAGES),
        (3, 1, MANUFACTURER),
        (3, 2, PRODUCT),
        (3, 3, CONFIG),
        (6, 0, QUALIFIER),
        (7, 0, OTHER_SPEED),
    ],
)
def test_descriptor_bytes(descriptor_type: int, index: int, expected: bytes) -> None:
    assert aisrv_descriptors().find(descriptor_type, index) == expected


@pytest.mark.parametrize(
    ("descriptor_type", "index"),
    [(0, 0), (1, 1), (2, 1), (3, 4), (3, 255), (4, 0), (5, 0), (6, 1), (7, 1), (8, 0), (0x21, 0), (255, 0)],
)
def test_descriptor_that_is_not_there(descriptor_type: int, index: int) -> None:
    assert aisrv_descriptors().find(descriptor_type, index) is None


def test_serial_number_is_string_4() -> None:
    descriptors = aisrv_descriptors("A1")
    assert descriptors.find(1, 0) == DEVICE[:16] + b"\x04" + DEVICE[17:]
    assert descriptors.find(3, 4) == b"\x06\x03A\x001\x00"
    assert descriptors.find(3, 3) == CONFIG
    assert descriptors.find(3, 5) is None


def test_first_byte_of_every_descriptor_is_its_length() -> None:
    descriptors = aisrv_descriptors("serial")
    found = [descriptors.find(kind, index) for kind, index in [(1, 0), (3, 0), (3, 1), (3, 4), (6, 0)]]
    assert all(each is not None and each[0] == len(each) for each in found)


def test_total_length_counts_every_interface_and_endpoint() -> None:
    two = ConfigurationDescriptor(
        interfaces=(
            InterfaceDescriptor(),
            InterfaceDescriptor(number=1, endpoints=(EndpointDescriptor(address=0x82),)),
        )
    )
    found = Descriptors(configuration=two).find(2, 0)
    assert found is not None
    assert struct.unpack_from("<BBHB", found) == (9, 2, 9 + 9 + 14 + 9 + 7, 2)
    assert len(found) == 48
    assert found[9 + 9 + 14 :] == bytes.fromhex("09 04 01 00 01 ff ff ff 03 07 05 82 02 0002 01")


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (1, 1), (125, 125), (126, 126), (127, 126), (300, 126)])
def test_string_is_cut_where_its_length_would_not_fit_a_byte(length: int, kept: int) -> None:
    descriptor = string_descriptor("é" * length)
    assert descriptor == bytes((2 + 2 * kept, 3)) + b"\xe9\x00" * kept


def test_cut_never_splits_a_character() -> None:
    assert string_descriptor("é" * 125 + "\N{SNOWMAN}")[2:].decode("utf-16-le")[-1] == "\N{SNOWMAN}"
    assert string_descriptor("é" * 125 + "\N{ROCKET}")[2:].decode("utf-16-le") == "é" * 125


def test_setup_packet_by_hand() -> None:
    get_string = bytes.fromhex("80 06 0203 0904 ff00")
    assert SetupPacket.from_bytes(get_string) == SetupPacket(0x80, 6, 0x0302, 0x0409, 0x00FF)
    assert bytes(SetupPacket(0x02, 1, 0, 0x81, 0)) == bytes.fromhex("02 01 0000 8100 0000")


@pytest.mark.parametrize(
    ("request_type", "to_host"), [(0x00, False), (0x7F, False), (0x80, True), (0xC1, True)]
)
def test_bit_7_of_the_request_type_is_the_direction(request_type: int, to_host: bool) -> None:
    assert SetupPacket(request_type, 0, 0, 0, 0).to_host is to_host


@pytest.mark.parametrize("size", [0, 1, 7, 9, 16])
def test_setup_packet_of_another_length(size: int) -> None:
    with pytest.raises(ValueError, match=f"^a SETUP packet has 8 bytes, not {size}$"):
        SetupPacket.from_bytes(bytes(size))


@given(st.binary(min_size=8, max_size=8))
def test_setup_packet_round_trip(data: bytes) -> None:
    assert bytes(SetupPacket.from_bytes(data)) == data


# What a host reads: bytes that a device sent, which may be anything.


def test_device_descriptor_is_parsed() -> None:
    assert DeviceDescriptor.parse(DEVICE) == aisrv_descriptors().device
    assert DeviceDescriptor.parse(b"\xff" + DEVICE[1:] + b"more").length == 0xFF


def test_configuration_is_parsed() -> None:
    parsed = ConfigurationDescriptor.parse(CONFIGURATION)
    assert bytes(parsed) == CONFIGURATION
    assert (parsed.total_length, parsed.interface_count, parsed.interfaces[0].endpoint_count) == (32, 1, 2)


def test_first_bytes_of_a_configuration_tell_its_length() -> None:
    parsed = ConfigurationDescriptor.parse(CONFIGURATION[:9])
    assert (parsed.total_length, parsed.interfaces) == (32, ())


def test_alternate_settings_are_grouped_by_interface() -> None:
    settings = b"".join(bytes([9, 4, number, alt, 0, 1, 2, 3, 0]) for number, alt in ((0, 0), (1, 0), (1, 1)))
    parsed = ConfigurationDescriptor.parse(CONFIGURATION[:9] + settings)
    assert [[one.alternate for one in settings] for settings in parsed.settings] == [[0], [0, 1]]
    assert bytes(parsed)[2:5] == bytes([36, 0, 2])  # two interfaces with three settings


def test_other_descriptors_are_extras_of_what_they_follow() -> None:
    extra = bytes([3, 0x24, 7])
    data = CONFIGURATION[:9] + extra + CONFIGURATION[9:18] + extra + CONFIGURATION[18:] + extra
    parsed = ConfigurationDescriptor.parse(data)
    (interface,) = parsed.interfaces
    assert parsed.extra == interface.extra == extra
    assert [endpoint.extra for endpoint in interface.endpoints] == [b"", extra]
    assert bytes(parsed) == data[:2] + bytes([len(data), 0]) + data[4:]


def test_audio_endpoint_has_two_more_fields() -> None:
    audio = bytes([9, 5, 0x82, 1, 64, 0, 4, 5, 6])
    (interface,) = ConfigurationDescriptor.parse(CONFIGURATION[:18] + audio).interfaces
    assert interface.endpoints[0].more == bytes([5, 6])
    assert bytes(interface.endpoints[0]) == audio


@pytest.mark.parametrize("size", range(9, 33))
def test_truncated_configuration_keeps_what_is_whole(size: int) -> None:
    interfaces = ConfigurationDescriptor.parse(CONFIGURATION[:size]).interfaces
    assert [len(each.endpoints) for each in interfaces] == ([] if size < 18 else [(size - 18) // 7])


@pytest.mark.parametrize(
    "tail", [b"\0\0", b"\1\4", b"\x09\x04", b"\xff\xff" + bytes(20), bytes([3, 4, 0]), bytes([3, 5, 1])]
)
def test_nonsense_ends_the_reading(tail: bytes) -> None:
    (interface,) = ConfigurationDescriptor.parse(CONFIGURATION + tail).interfaces
    assert len(interface.endpoints) == 2


@pytest.mark.parametrize("data", [b"", b"\x12", DEVICE[:17], b"\x08" + DEVICE[1:], CONFIGURATION])
def test_no_device_descriptor(data: bytes) -> None:
    with pytest.raises(DescriptorError, match="descriptor type 1"):
        DeviceDescriptor.parse(data)


@pytest.mark.parametrize("data", [b"", CONFIGURATION[:8], DEVICE])
def test_no_configuration_descriptor(data: bytes) -> None:
    with pytest.raises(DescriptorError, match="descriptor type 2"):
        ConfigurationDescriptor.parse(data)


@given(st.binary(max_size=100))
def test_any_bytes_after_a_configuration_are_parsed_or_left_out(data: bytes) -> None:
    parsed = ConfigurationDescriptor.parse(CONFIGURATION[:9] + data)
    again = ConfigurationDescriptor.parse(bytes(parsed))  # with the right counts
    assert bytes(again) == bytes(parsed)
    assert ConfigurationDescriptor.parse(bytes(again)) == again


def test_an_endpoint_is_found_in_any_setting() -> None:
    settings = tuple(
        InterfaceDescriptor(
            alternate=alternate, endpoints=(EndpointDescriptor(address=0x80 + alternate, attributes=kind),)
        )
        for alternate, kind in ((1, 2), (2, 3), (3, 0x13))
    )
    configuration = ConfigurationDescriptor(interfaces=settings)
    found = [configuration.endpoint(address) for address in (0x81, 0x82, 0x83, 0x84, 0x01)]
    assert [each and each.is_interrupt for each in found] == [False, True, True, None, None]
