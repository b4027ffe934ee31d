"""USB descriptors as pyusb wants to see them: objects with the field names of the USB specification.

Read from the bytes that a device sent, which may be anything: what is cut short or makes no sense ends the
reading, and the counts say what was found, not what was claimed.
Source: USB 2.0, sections 9.6.1 (device), 9.6.3 (configuration), 9.6.5 (interface), 9.6.6 (endpoint).
"""

from __future__ import annotations

import enum
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final


class DescriptorType(enum.IntEnum):
    """What the second byte of a descriptor says (USB 2.0, table 9-5)."""

    DEVICE = 1
    CONFIGURATION = 2
    INTERFACE = 4
    ENDPOINT = 5


DEVICE_SIZE: Final = 18
CONFIGURATION_SIZE: Final = 9

if TYPE_CHECKING:
    _Layout = tuple[struct.Struct, tuple[str, ...]]

_DEVICE: Final[_Layout] = (
    struct.Struct("<BBHBBBBHHHBBBB"),
    (
        *("bLength", "bDescriptorType", "bcdUSB", "bDeviceClass", "bDeviceSubClass", "bDeviceProtocol"),
        *("bMaxPacketSize0", "idVendor", "idProduct", "bcdDevice", "iManufacturer", "iProduct"),
        *("iSerialNumber", "bNumConfigurations"),
    ),
)
_CONFIGURATION: Final[_Layout] = (
    struct.Struct("<BBHBBBBB"),
    (
        *("bLength", "bDescriptorType", "wTotalLength", "bNumInterfaces", "bConfigurationValue"),
        *("iConfiguration", "bmAttributes", "bMaxPower"),
    ),
)
_INTERFACE: Final[_Layout] = (
    struct.Struct("<BBBBBBBBB"),
    (
        *("bLength", "bDescriptorType", "bInterfaceNumber", "bAlternateSetting", "bNumEndpoints"),
        *("bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol", "iInterface"),
    ),
)
_ENDPOINT: Final[_Layout] = (
    struct.Struct("<BBBBHB"),
    ("bLength", "bDescriptorType", "bEndpointAddress", "bmAttributes", "wMaxPacketSize", "bInterval"),
)


class DescriptorError(ValueError):
    """Bytes that are not the descriptor that was asked for."""


def parse_device(data: bytes) -> SimpleNamespace:
    """A device descriptor."""
    return _fields(_DEVICE, data, DescriptorType.DEVICE)


def total_length(data: bytes) -> int:
    """Bytes of a whole configuration, from its first 9."""
    return int(_fields(_CONFIGURATION, data, DescriptorType.CONFIGURATION).wTotalLength)


def parse_configuration(data: bytes) -> SimpleNamespace:
    """A configuration with `interfaces`, a list of lists of alternate settings, each with `endpoints`.

    Descriptors of other types are in `extra_descriptors` of what they follow, as a list of bytes.
    """
    configuration = owner = _fields(_CONFIGURATION, data, DescriptorType.CONFIGURATION)
    configuration.extra_descriptors = []
    by_number: dict[int, list[SimpleNamespace]] = {}
    setting: SimpleNamespace | None = None
    start = data[0]
    while len(data) - start >= 2:
        size, kind = data[start], data[start + 1]
        body = data[start : start + size]
        if size < 2 or len(body) < size:
            break
        try:
            if kind == DescriptorType.INTERFACE:
                owner = setting = _fields(_INTERFACE, body, DescriptorType.INTERFACE)
                setting.endpoints = []
                by_number.setdefault(setting.bInterfaceNumber, []).append(setting)
            elif kind == DescriptorType.ENDPOINT and setting is not None:
                owner = _fields(_ENDPOINT, body, DescriptorType.ENDPOINT)
                # Only audio devices have these two, in descriptors that are two bytes longer.
                owner.bRefresh, owner.bSynchAddress = (body[7], body[8]) if size >= 9 else (0, 0)
                setting.endpoints.append(owner)
            else:
                owner.extra_descriptors += body
                start += size
                continue
        except DescriptorError:
            break
        owner.extra_descriptors = []
        start += size
    configuration.interfaces = list(by_number.values())
    configuration.bNumInterfaces = len(configuration.interfaces)
    for settings in configuration.interfaces:
        for one in settings:
            one.bNumEndpoints = len(one.endpoints)
    return configuration


def _fields(layout: _Layout, data: bytes, kind: int) -> SimpleNamespace:
    structure, names = layout
    if len(data) < structure.size or data[0] < structure.size or data[1] != kind:
        raise DescriptorError(
            f"expected {structure.size} bytes of descriptor type {kind:d}, "
            f"got {bytes(data[:9]).hex(' ') or 'nothing'}"
        )
    # Python 3.8 has no zip(strict=True).
    return SimpleNamespace(**dict(zip(names, structure.unpack_from(data))))  # noqa: B905
