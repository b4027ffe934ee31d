"""The standard control requests (USB 2.0, section 9.4) that a host library sends to an imported device.

Each function raises what `Connection.control_in` raises; a device refuses a request with a stall. What is not
the descriptor that was asked for is a TransferError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from aisrv.protocol.usb_descriptors import (
    DIRECTION_IN,
    ENDPOINT_HALT,
    LANGID_ENGLISH_US,
    ConfigurationDescriptor,
    DescriptorError,
    DescriptorType,
    DeviceDescriptor,
    Recipient,
    SetupPacket,
    StandardRequest,
    halt_bit,
    string_text,
)
from host_tools.errors import TransferError

if TYPE_CHECKING:
    from host_tools.transports.usbip.connection import Connection

CONTROL_TIMEOUT: Final = 5.0
"""Seconds for each request, as the kernel allows."""

_LONGEST_STRING: Final = 255

_Descriptor = TypeVar("_Descriptor", DeviceDescriptor, ConfigurationDescriptor)


def get_descriptor(connection: Connection, kind: int, index: int, length: int, language: int = 0) -> bytes:
    """Return up to `length` bytes of a descriptor; `language` is for strings."""
    setup = SetupPacket(DIRECTION_IN, StandardRequest.GET_DESCRIPTOR, kind << 8 | index, language, length)
    return connection.control_in(bytes(setup), length, CONTROL_TIMEOUT)


def read_device(connection: Connection) -> DeviceDescriptor:
    """Return the device descriptor."""
    return _read(connection, DeviceDescriptor, DescriptorType.DEVICE, 0, DeviceDescriptor.SIZE)


def read_configuration(connection: Connection, index: int) -> ConfigurationDescriptor:
    """Return a configuration with its interfaces."""
    kind = DescriptorType.CONFIGURATION
    start = _read(connection, ConfigurationDescriptor, kind, index, ConfigurationDescriptor.SIZE)
    return _read(connection, ConfigurationDescriptor, kind, index, start.total_length)


def _read(
    connection: Connection, wanted: type[_Descriptor], kind: int, index: int, length: int
) -> _Descriptor:
    try:
        return wanted.parse(get_descriptor(connection, kind, index, length))
    except DescriptorError as error:
        raise TransferError(f"descriptor {index} of type {kind}: {error}") from error


def read_string(connection: Connection, index: int) -> str:
    """Return a string in English."""
    kind = DescriptorType.STRING
    return string_text(get_descriptor(connection, kind, index, _LONGEST_STRING, LANGID_ENGLISH_US))


def get_configuration(connection: Connection) -> int:
    """Return the value of the configuration that is set, 0 for none."""
    setup = bytes(SetupPacket(DIRECTION_IN, StandardRequest.GET_CONFIGURATION, 0, 0, 1))
    return int.from_bytes(connection.control_in(setup, 1, CONTROL_TIMEOUT), "little")


def set_configuration(connection: Connection, value: int) -> None:
    """Set a configuration: the device drops what it was doing, and clears all halts."""
    _send(connection, Recipient.DEVICE, StandardRequest.SET_CONFIGURATION, value, 0)


def set_interface(connection: Connection, interface: int, setting: int) -> None:
    """Choose an alternate setting of an interface."""
    _send(connection, Recipient.INTERFACE, StandardRequest.SET_INTERFACE, setting, interface)


def clear_halt(connection: Connection, endpoint: int) -> None:
    """Clear the halt of an endpoint, given by its address."""
    _send(connection, Recipient.ENDPOINT, StandardRequest.CLEAR_FEATURE, ENDPOINT_HALT, endpoint)


def is_halted(connection: Connection, endpoint: int) -> bool:
    """Return whether an endpoint, given by its address, is halted."""
    setup = SetupPacket(DIRECTION_IN | Recipient.ENDPOINT, StandardRequest.GET_STATUS, 0, endpoint, 2)
    return halt_bit(connection.control_in(bytes(setup), 2, CONTROL_TIMEOUT))


def _send(
    connection: Connection, recipient: Recipient, request: StandardRequest, value: int, index: int
) -> None:
    connection.control_out(bytes(SetupPacket(recipient, request, value, index, 0)), timeout=CONTROL_TIMEOUT)
