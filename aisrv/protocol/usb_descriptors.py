"""USB descriptors as values, and those of the AI server.

Source: Universal Serial Bus Specification 2.0, chapter 9 (sections 9.3 and 9.6); the values of the AI server
from "XCORE AI server: numbers and wire behavior", section USB identity. Devices build descriptors from these
values, hosts parse them into the same; what a device sent may be anything.
Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from aisrv.protocol.commands import (
    ENDPOINT_IN,
    ENDPOINT_OUT,
    PACKET_SIZE,
    USB_MANUFACTURER,
    USB_PRODUCT,
    USB_PRODUCT_ID,
    USB_VENDOR_ID,
)
from aisrv.values.packet import U8, U16, Packet, Pad1, Rest, replace

if TYPE_CHECKING:
    from typing import Self

CONTROL_PACKET_SIZE: Final = 64
LANGID_ENGLISH_US: Final = 0x0409
BUS_POWERED: Final = 0x80
TRANSFER_BULK: Final = 2
TRANSFER_INTERRUPT: Final = 3
TRANSFER_MASK: Final = 3
"""Bits of an endpoint's bmAttributes that are the kind of its transfers."""
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


class StandardRequest(enum.IntEnum):
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


def halt_bit(status: bytes) -> bool:
    """Return whether the answer of GET_STATUS to an endpoint, figure 9-6, says that it is halted."""
    return bool(status[:1] and status[0] & 1)


DIRECTION_IN: Final = 0x80
"""Bit 7 of bmRequestType and of an endpoint's address: from device to host."""


class DescriptorError(ValueError):
    """Bytes that are not the descriptor, or not the SETUP packet, that they should be."""


class UsbPacket(Packet, byte_order="<", error=DescriptorError):
    """Base of what chapter 9 of USB 2.0 lays out."""


class SetupPacket(UsbPacket, name="a SETUP packet"):
    """The eight bytes that open a control transfer, section 9.3."""

    request_type: U8
    request: U8
    value: U16
    index: U16
    length: U16

    @property
    def to_host(self) -> bool:
        """Return whether the data stage goes from device to host."""
        return bool(self.request_type & DIRECTION_IN)


class Descriptor(UsbPacket):
    """Base of the descriptors, which begin with their length and type."""

    TYPE: ClassVar[DescriptorType]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the descriptor at the start of what a device sent; it may say that it is longer than ours.

        DescriptorError where the bytes are too few or of another type.
        """
        if len(data) < cls.SIZE or data[0] < cls.SIZE or data[1] != cls.TYPE:
            raise DescriptorError(
                f"expected {cls.SIZE} bytes of descriptor type {cls.TYPE:d}, "
                f"got {bytes(data[:9]).hex(' ') or 'nothing'}"
            )
        return cls.unpack_from(data)


class DeviceDescriptor(Descriptor, name="a device descriptor"):
    """Section 9.6.1: 18 bytes."""

    TYPE: ClassVar = DescriptorType.DEVICE

    length: U8 = 18
    """bLength."""
    descriptor_type: U8 = DescriptorType.DEVICE
    """bDescriptorType."""
    usb_version: U16 = 0x0200
    """bcdUSB: USB 2.0."""
    device_class: U8 = VENDOR_SPECIFIC
    """bDeviceClass: of the vendor."""
    device_subclass: U8 = VENDOR_SPECIFIC
    """bDeviceSubClass."""
    device_protocol: U8 = VENDOR_SPECIFIC
    """bDeviceProtocol."""
    max_packet_size: U8 = CONTROL_PACKET_SIZE
    """bMaxPacketSize0, of endpoint 0, in bytes."""
    vendor: U16 = USB_VENDOR_ID
    """idVendor: XMOS."""
    product: U16 = USB_PRODUCT_ID
    """idProduct: the AI server."""
    bcd_device: U16 = 0x1000
    """bcdDevice."""
    manufacturer_string: U8 = 1
    """iManufacturer, an index of a string."""
    product_string: U8 = 2
    """iProduct."""
    serial_string: U8 = 0
    """iSerialNumber: 4 where the board has one."""
    configuration_count: U8 = 1
    """bNumConfigurations."""

    def qualifier(self) -> DeviceQualifier:
        """The DEVICE_QUALIFIER, section 9.6.2: the device at the other speed, where it is the same."""
        return DeviceQualifier(
            usb_version=self.usb_version,
            device_class=self.device_class,
            device_subclass=self.device_subclass,
            device_protocol=self.device_protocol,
            max_packet_size=self.max_packet_size,
            configuration_count=self.configuration_count,
        )


class DeviceQualifier(Descriptor, kw_only=True, name="a device qualifier"):
    """Section 9.6.2: 10 bytes."""

    TYPE: ClassVar = DescriptorType.DEVICE_QUALIFIER

    length: U8 = 10
    """bLength."""
    descriptor_type: U8 = DescriptorType.DEVICE_QUALIFIER
    """bDescriptorType."""
    usb_version: U16
    """bcdUSB."""
    device_class: U8
    """bDeviceClass."""
    device_subclass: U8
    """bDeviceSubClass."""
    device_protocol: U8
    """bDeviceProtocol."""
    max_packet_size: U8
    """bMaxPacketSize0, in bytes."""
    configuration_count: U8
    """bNumConfigurations."""
    reserved: ClassVar[Pad1]
    """bReserved."""


class EndpointDescriptor(Descriptor, kw_only=True, name="an endpoint descriptor"):
    """Section 9.6.6: 7 bytes."""

    TYPE: ClassVar = DescriptorType.ENDPOINT

    length: U8 = 7
    """bLength."""
    descriptor_type: U8 = DescriptorType.ENDPOINT
    """bDescriptorType."""
    address: U8
    """bEndpointAddress: bit 7 is set for IN."""
    attributes: U8 = TRANSFER_BULK
    """bmAttributes: 2 is bulk."""
    max_packet_size: U16 = PACKET_SIZE
    """wMaxPacketSize, in bytes."""
    interval: U8 = 1
    """bInterval."""
    more: Rest = b""
    """What a longer descriptor has besides: bRefresh and bSynchAddress of an audio device's."""
    extra: bytes = b""
    """Descriptors of other types that follow it."""

    @property
    def is_interrupt(self) -> bool:
        """Return whether it is for interrupt transfers."""
        return self.attributes & TRANSFER_MASK == TRANSFER_INTERRUPT

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the descriptor at the start of what a device sent, as long as it says it is."""
        return super().parse(data[: data[0]] if data else data)


class InterfaceDescriptor(Descriptor, name="an interface descriptor"):
    """Section 9.6.5: 9 bytes, followed by the endpoints; one of the alternate settings of an interface."""

    TYPE: ClassVar = DescriptorType.INTERFACE

    length: U8 = 9
    """bLength."""
    descriptor_type: U8 = DescriptorType.INTERFACE
    """bDescriptorType."""
    number: U8 = 0
    """bInterfaceNumber."""
    alternate: U8 = 0
    """bAlternateSetting."""
    endpoint_count: U8 = 0
    """bNumEndpoints. As read; what is written counts `endpoints`."""
    interface_class: U8 = VENDOR_SPECIFIC
    """bInterfaceClass: of the vendor."""
    interface_subclass: U8 = VENDOR_SPECIFIC
    """bInterfaceSubClass."""
    interface_protocol: U8 = VENDOR_SPECIFIC
    """bInterfaceProtocol."""
    string: U8 = 3
    """iInterface."""
    endpoints: tuple[EndpointDescriptor, ...] = (
        EndpointDescriptor(address=ENDPOINT_OUT),
        EndpointDescriptor(address=ENDPOINT_IN),
    )
    extra: bytes = b""

    def __bytes__(self) -> bytes:
        own = Packet.__bytes__(replace(self, endpoint_count=len(self.endpoints)))
        return b"".join((own, self.extra, *(bytes(each) + each.extra for each in self.endpoints)))


class ConfigurationDescriptor(Descriptor, name="a configuration descriptor"):
    """Section 9.6.3: 9 bytes, followed by the interfaces."""

    TYPE: ClassVar = DescriptorType.CONFIGURATION

    length: U8 = 9
    """bLength."""
    descriptor_type: U8 = DescriptorType.CONFIGURATION
    """bDescriptorType."""
    total_length: U16 = 0
    """wTotalLength, in bytes. As read; what is written is the length of all of it."""
    interface_count: U8 = 0
    """bNumInterfaces. As read; what is written counts `settings`."""
    value: U8 = 1
    """bConfigurationValue."""
    string: U8 = 0
    """iConfiguration."""
    attributes: U8 = BUS_POWERED
    """bmAttributes: bus-powered."""
    max_power: U8 = 0xFA
    """bMaxPower, in units of 2 mA: 500 mA."""
    interfaces: tuple[InterfaceDescriptor, ...] = (InterfaceDescriptor(),)
    """All alternate settings of all interfaces."""
    extra: bytes = b""

    def __bytes__(self) -> bytes:
        rest = self.extra + b"".join(map(bytes, self.interfaces))
        counts = replace(self, total_length=self.SIZE + len(rest), interface_count=len(self.settings))
        return Packet.__bytes__(counts) + rest

    @property
    def settings(self) -> list[list[InterfaceDescriptor]]:
        """The alternate settings of each interface."""
        by_number: dict[int, list[InterfaceDescriptor]] = {}
        for each in self.interfaces:
            by_number.setdefault(each.number, []).append(each)
        return list(by_number.values())

    def endpoint(self, address: int) -> EndpointDescriptor | None:
        """Return the endpoint of an address, in whatever setting it is; None where there is none."""
        endpoints = (endpoint for setting in self.interfaces for endpoint in setting.endpoints)
        return next((endpoint for endpoint in endpoints if endpoint.address == address), None)

    def other_speed(self) -> Self:
        """The same as an OTHER_SPEED_CONFIGURATION, section 9.6.4: what goes with the qualifier."""
        return replace(self, descriptor_type=DescriptorType.OTHER_SPEED_CONFIGURATION)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a configuration that a device sent, or its first 9 bytes; DescriptorError for no such.

        What is cut short or makes no sense after them ends the reading.
        """
        own = super().parse(data)
        extra, interfaces = _parse_interfaces(data[own.length :])
        return replace(own, interfaces=interfaces, extra=extra)


def _parse_interfaces(data: bytes) -> tuple[bytes, tuple[InterfaceDescriptor, ...]]:
    """What follows a configuration's own descriptor: those of other types, and the interfaces."""
    extras = [bytearray()]  # of the configuration, and of each interface and endpoint in their order
    found: list[tuple[InterfaceDescriptor, int, list[tuple[EndpointDescriptor, int]]]] = []
    start = 0
    while len(data) - start >= 2:
        size, kind = data[start], data[start + 1]
        body = data[start : start + size]
        if size < 2 or len(body) < size:
            break
        try:
            if kind == DescriptorType.INTERFACE:
                found.append((InterfaceDescriptor.parse(body), len(extras), []))
                extras.append(bytearray())
            elif kind == DescriptorType.ENDPOINT and found:
                found[-1][2].append((EndpointDescriptor.parse(body), len(extras)))
                extras.append(bytearray())
            else:
                extras[-1] += body
        except DescriptorError:
            break
        start += size
    interfaces = (
        replace(
            interface,
            endpoints=tuple(replace(each, extra=bytes(extras[index])) for each, index in endpoints),
            extra=bytes(extras[place]),
        )
        for interface, place, endpoints in found
    )
    return bytes(extras[0]), tuple(interfaces)


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

    device: DeviceDescriptor = field(default_factory=DeviceDescriptor)
    configuration: ConfigurationDescriptor = field(default_factory=ConfigurationDescriptor)
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
            return bytes(self.device.qualifier())
        if descriptor_type == DescriptorType.OTHER_SPEED_CONFIGURATION:
            return bytes(self.configuration.other_speed())
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
