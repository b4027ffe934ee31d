"""Control transfers: their names, the fields in which answers differ, and what is not compared."""

import pytest
from msgspec.structs import replace

from aisrv.addons.captures.replay.control import describe, first_difference, left_out
from aisrv.addons.captures.replay.transfers import Transfer
from aisrv.protocol.usb_descriptors import ConfigurationDescriptor, DeviceDescriptor, SetupPacket
from phy.usb.taps.usbmon import TransferType


def setup(text: str) -> SetupPacket:
    return SetupPacket.from_bytes(bytes.fromhex(text))


GET_DEVICE = setup("8006000100001200")
GET_CONFIGURATION_DESCRIPTOR = setup("800600020000ff00")
DEVICE, CONFIGURATION = bytes(DeviceDescriptor()), bytes(ConfigurationDescriptor())


@pytest.mark.parametrize(
    ("packet", "name"),
    [
        ("8006000100001200", "GET_DESCRIPTOR of device"),
        ("800600020000ff00", "GET_DESCRIPTOR of configuration"),
        ("800602030904ff00", "GET_DESCRIPTOR of string 2"),
        ("80060022000000ff", "GET_DESCRIPTOR of type 0x22"),
        ("0009010000000000", "SET_CONFIGURATION 1"),
        ("8008000000000100", "GET_CONFIGURATION"),
        ("0201000081000000", "CLEAR_FEATURE of endpoint 0x81"),
        ("8200000001000200", "GET_STATUS of endpoint 0x01"),
        ("c001030002000400", "control request 0x01 (type 0xc0, value 0x0003, index 0x0002)"),
        ("807f000000000000", "control request 0x7f (type 0x80, value 0x0000, index 0x0000)"),
    ],
)
def test_requests_have_the_names_of_the_specification(packet: str, name: str) -> None:
    assert describe(setup(packet)) == name


def changed(data: bytes, place: int, value: int = 0xEE) -> bytes:
    return data[:place] + bytes([value]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("place", "expected", "got"),
    [
        (2, "usb_version of the device descriptor 0x0200", "usb_version of the device descriptor 0x02ee"),
        (9, "vendor of the device descriptor 0x20b1", "vendor of the device descriptor 0xeeb1"),
        (13, "bcd_device of the device descriptor 0x1000", "bcd_device of the device descriptor 0xee00"),
        (
            17,
            "configuration_count of the device descriptor 0x01",
            "configuration_count of the device descriptor 0xee",
        ),
    ],
)
def test_field_of_the_device_descriptor_is_named(place: int, expected: str, got: str) -> None:
    assert first_difference(GET_DEVICE, DEVICE, changed(DEVICE, place), mask=True) == (expected, got)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (8, "max_power of the configuration descriptor"),
        (9 + 5, "interface_class of the interface descriptor"),
        (18 + 2, "address of the endpoint descriptor"),
        (25 + 4, "max_packet_size of the endpoint descriptor"),
    ],
)
def test_descriptors_in_a_configuration_are_told_apart(place: int, name: str) -> None:
    found = first_difference(
        GET_CONFIGURATION_DESCRIPTOR, CONFIGURATION, changed(CONFIGURATION, place), mask=True
    )
    assert found is not None
    assert found[0].startswith(name)


def test_number_of_the_serial_string_is_masked() -> None:
    other = changed(DEVICE, 16)
    assert first_difference(GET_DEVICE, DEVICE, other, mask=True) is None
    assert first_difference(GET_DEVICE, DEVICE, other, mask=False) == (
        "serial_string of the device descriptor 0x00",
        "serial_string of the device descriptor 0xee",
    )


def test_what_is_no_descriptor_is_compared_by_bytes() -> None:
    found = first_difference(setup("c001000000000400"), b"\x01\x02\x03", b"\x01\x02\x04", mask=True)
    assert found == ("byte 2 0x03", "byte 2 0x04")


@pytest.mark.parametrize(
    "data", [b"\0\0\0", b"\x01\x01\x01", b"\xff\x01\x00", b"\x02", b"\x05\x02\x00", b"\x03\x63\0"]
)
def test_descriptors_that_contradict_themselves_are_compared_by_bytes(data: bytes) -> None:
    last = len(data) - 1
    found = first_difference(GET_DEVICE, data, changed(data, last), mask=True)
    assert found == (f"byte {last} {data[last]:#04x}", f"byte {last} 0xee")


def test_recorded_beginning_of_an_answer_is_enough() -> None:
    assert first_difference(GET_DEVICE, DEVICE[:8], DEVICE, mask=True) is None


def transfer(number: int, packet: str, received: bytes = b"") -> Transfer:
    request = setup(packet)
    endpoint = 0x80 if request.to_host else 0
    return Transfer(
        number,
        number + 1,
        TransferType.CONTROL,
        endpoint,
        request,
        b"",
        request.length,
        0,
        len(received),
        received,
    )


def test_what_depends_on_the_device_alone_is_left_out() -> None:
    device = bytes(replace(DeviceDescriptor(), serial_string=4))
    transfers = [
        transfer(1, "0005070000000000"),  # SET_ADDRESS 7
        transfer(3, "8006000100001200", device),
        transfer(5, "8008000000000100", b"\0"),  # the configuration before one is set
        transfer(7, "0009010000000000"),
        transfer(9, "8008000000000100", b"\x01"),
        transfer(11, "800604030904ff00", b"\x04\x03A\0"),  # string 4, the serial number
        transfer(13, "800602030904ff00", b"\x04\x03A\0"),
    ]
    assert left_out(transfers) == {1, 5, 11}


def test_string_0_is_compared_where_there_is_no_serial_number() -> None:
    transfers = [
        transfer(1, "8006000100001200", DEVICE),
        transfer(3, "800600030000ff00", b"\x04\x03\x09\x04"),
    ]
    assert left_out(transfers) == set()
