"""USB descriptors as values, and those of the AI server.

Source: Universal Serial Bus Specification 2.0, chapter 9 (sections 9.3 and 9.6); the values of the AI server
from "XCORE AI server: numbers and wire behavior", section USB identity.
"""

import enum
import struct
from dataclasses import dataclass, replace
from typing import Final

from aisrv.protocol.commands import (
    ENDPOINT_IN,
    ENDPOINT_OUT,
    PACKET_SIZE,
    USB_MANUFACTURER,
    USB_PRODUCT,
    USB_PRODUCT_ID,
    USB_VENDOR_ID,
)

CONTROL_PACKET_SIZE: Final = 64
LANGID_ENGLISH_US: Final = 0x0409
BUS_POWERED: Final = 0x80
TRANSFER_BULK: Final = 2
VENDOR_SPECIFIC: Final = 0xFF


class DescriptorType(enum.IntEnum):
    """Table 9-5."""

    DEVICE = 1
    CONFIGURATION = 2
    STRING = 3
    INTERFACE = 4
    ENDPOINT = 5
    DEVICE_QUALIFIER = 6
    OTHER_SPEED_CONFIGURATION = 7


class Request(enum.IntEnum):
    """Standard requests, table 9-4."""

    GET_STATUS = 0
    CLEAR_FEATURE = 1
    SET_FEATURE = 3
    SET_ADDRESS = 5
    GET_DESCRIPTOR = 6
    SET_DESCRIPTOR = 7
    GET_CONFIGURATION = 8
    SET_CONFIGURATION = 9
    GET_INTERFACE = 10
    SET_INTERFACE = 11
    SYNCH_FRAME = 12


class Recipient(enum.IntEnum):
    """Bits 0 to 4 of bmRequestType, table 9-2."""

    DEVICE = 0
    INTERFACE = 1
    ENDPOINT = 2
    OTHER = 3


ENDPOINT_HALT: Final = 0
"""Feature selector, table 9-6."""

DIRECTION_IN: Final = 0x80
"""Bit 7 of bmRequestType and of an endpoint's address: from device to host."""


@dataclass(frozen=True, slots=True)
class SetupPacket:
    """The eight bytes that open a control transfer, section 9.3."""

    request_type: int
    request: int
    value: int
    index: int
    length: int

    @classmethod
    def from_bytes(cls, data: bytes) -> "SetupPacket":
        """Read eight bytes; any other length is a ValueError."""
        if len(data) != 8:
            raise ValueError(f"a SETUP packet has 8 bytes, not {len(data)}")
        return cls(*struct.unpack("<BBHHH", data))

    def __bytes__(self) -> bytes:
        return struct.pack("<BBHHH", self.request_type, self.request, self.value, self.index, self.length)

    @property
    def to_host(self) -> bool:
        """Whether the data stage goes from device to host."""
        return bool(self.request_type & DIRECTION_IN)


@dataclass(frozen=True, slots=True)
class DeviceDescriptor:
    """Section 9.6.1: 18 bytes."""

    usb_version: int = 0x0200
    device_class: int = VENDOR_SPECIFIC
    device_subclass: int = VENDOR_SPECIFIC
    device_protocol: int = VENDOR_SPECIFIC
    max_packet_size: int = CONTROL_PACKET_SIZE
    vendor: int = USB_VENDOR_ID
    product: int = USB_PRODUCT_ID
    bcd_device: int = 0x1000
    manufacturer_string: int = 1
    product_string: int = 2
    serial_string: int = 0
    configuration_count: int = 1

    def __bytes__(self) -> bytes:
        return struct.pack(
            "<BBHBBBBHHHBBBB",
            18,
            DescriptorType.DEVICE,
            self.usb_version,
            self.device_class,
            self.device_subclass,
            self.device_protocol,
            self.max_packet_size,
            self.vendor,
            self.product,
            self.bcd_device,
            self.manufacturer_string,
            self.product_string,
            self.serial_string,
            self.configuration_count,
        )

    def qualifier(self) -> bytes:
        """The ten bytes of a DEVICE_QUALIFIER, section 9.6.2."""
        return struct.pack(
            "<BBHBBBBBB",
            10,
            DescriptorType.DEVICE_QUALIFIER,
            self.usb_version,
            self.device_class,
            self.device_subclass,
            self.device_protocol,
            self.max_packet_size,
            self.configuration_count,
            0,
        )


@dataclass(frozen=True, slots=True)
class EndpointDescriptor:
    """Section 9.6.6: 7 bytes."""

    address: int
    attributes: int = TRANSFER_BULK
    max_packet_size: int = PACKET_SIZE
    interval: int = 1

    def __bytes__(self) -> bytes:
        return struct.pack(
            "<BBBBHB",
            7,
            DescriptorType.ENDPOINT,
            self.address,
            self.attributes,
            self.max_packet_size,
            self.interval,
        )


@dataclass(frozen=True, slots=True)
class InterfaceDescriptor:
    """Section 9.6.5: 9 bytes, followed by the endpoints."""

    number: int = 0
    alternate: int = 0
    interface_class: int = VENDOR_SPECIFIC
    interface_subclass: int = VENDOR_SPECIFIC
    interface_protocol: int = VENDOR_SPECIFIC
    string: int = 3
    endpoints: tuple[EndpointDescriptor, ...] = (
        EndpointDescriptor(ENDPOINT_OUT),
        EndpointDescriptor(ENDPOINT_IN),
    )

    def __bytes__(self) -> bytes:
        own = struct.pack(
            "<BBBBBBBBB",
            9,
            DescriptorType.INTERFACE,
            self.number,
            self.alternate,
            len(self.endpoints),
            self.interface_class,
            self.interface_subclass,
            self.interface_protocol,
            self.string,
        )
        return own + b"".join(map(bytes, self.endpoints))


@dataclass(frozen=True, slots=True)
class ConfigurationDescriptor:
    """Section 9.6.3: 9 bytes, followed by the interfaces."""

    value: int = 1
    string: int = 0
    attributes: int = BUS_POWERED
    max_power: int = 0xFA
    """In units of 2 mA."""
    interfaces: tuple[InterfaceDescriptor, ...] = (InterfaceDescriptor(),)

    def __bytes__(self) -> bytes:
        return self._pack(DescriptorType.CONFIGURATION)

    def other_speed(self) -> bytes:
        """The same as an OTHER_SPEED_CONFIGURATION, section 9.6.4: what goes with the qualifier."""
        return self._pack(DescriptorType.OTHER_SPEED_CONFIGURATION)

    def _pack(self, descriptor_type: DescriptorType) -> bytes:
        interfaces = b"".join(map(bytes, self.interfaces))
        own = struct.pack(
            "<BBHBBBBB",
            9,
            descriptor_type,
            9 + len(interfaces),
            len(self.interfaces),
            self.value,
            self.string,
            self.attributes,
            self.max_power,
        )
        return own + interfaces


def string_descriptor(text: str) -> bytes:
    """UNICODE string, section 9.6.7: as many whole characters as fit into 252 bytes of UTF-16."""
    encoded = text.encode("utf-16-le")[:252].decode("utf-16-le", "ignore").encode("utf-16-le")
    return bytes((2 + len(encoded), DescriptorType.STRING)) + encoded


def string_text(descriptor: bytes) -> str:
    """Return the text of a string descriptor as a device sent it; what is not UTF-16 is replaced."""
    return descriptor[2 : descriptor[0]].decode("utf-16-le", errors="replace") if descriptor else ""


def language_descriptor(*languages: int) -> bytes:
    """String 0: the languages there are strings in."""
    return bytes((2 + 2 * len(languages), DescriptorType.STRING)) + struct.pack(
        f"<{len(languages)}H", *languages
    )


@dataclass(frozen=True, slots=True)
class Descriptors:
    """All that GET_DESCRIPTOR can answer."""

    device: DeviceDescriptor = DeviceDescriptor()
    configuration: ConfigurationDescriptor = ConfigurationDescriptor()
    strings: tuple[str, ...] = (USB_MANUFACTURER, USB_PRODUCT, "Config")
    """Strings from index 1."""

    def find(self, descriptor_type: int, index: int) -> bytes | None:
        """Return the descriptor, or None where there is none."""
        if descriptor_type == DescriptorType.STRING:
            return self._string(index)
        if index:
            return None
        if descriptor_type == DescriptorType.DEVICE:
            return bytes(self.device)
        if descriptor_type == DescriptorType.CONFIGURATION:
            return bytes(self.configuration)
        if descriptor_type == DescriptorType.DEVICE_QUALIFIER:
            return self.device.qualifier()
        if descriptor_type == DescriptorType.OTHER_SPEED_CONFIGURATION:
            return self.configuration.other_speed()
        return None

    def _string(self, index: int) -> bytes | None:
        if index == 0:
            return language_descriptor(LANGID_ENGLISH_US)
        return string_descriptor(self.strings[index - 1]) if index <= len(self.strings) else None


def aisrv_descriptors(serial: str | None = None) -> Descriptors:
    """Return the AI server's descriptors; hardware has no serial number, so that string 4 is an addition."""
    plain = Descriptors()
    if serial is None:
        return plain
    return Descriptors(
        replace(plain.device, serial_string=len(plain.strings) + 1),
        plain.configuration,
        (*plain.strings, serial),
    )
