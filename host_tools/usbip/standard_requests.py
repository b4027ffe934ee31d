"""The standard control requests (USB 2.0, section 9.4) that a host library sends to an imported device.

Each function raises what `Connection.control_in` raises; a device refuses a request with a stall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from host_tools.usbip.client import setup_packet

if TYPE_CHECKING:
    from host_tools.usbip.client import Connection

CONTROL_TIMEOUT: Final = 5.0
"""Seconds for each request, as the kernel allows."""

_OUT: Final = 0x00
_IN: Final = 0x80
_TO_DEVICE: Final = 0x00
_TO_INTERFACE: Final = 0x01
_TO_ENDPOINT: Final = 0x02
_CLEAR_FEATURE: Final = 1
_GET_DESCRIPTOR: Final = 6
_GET_CONFIGURATION: Final = 8
_SET_CONFIGURATION: Final = 9
_SET_INTERFACE: Final = 11
_ENDPOINT_HALT: Final = 0


def get_descriptor(connection: Connection, kind: int, index: int, length: int, language: int = 0) -> bytes:
    """Return up to `length` bytes of a descriptor; `language` is for strings."""
    setup = setup_packet(_IN, _GET_DESCRIPTOR, kind << 8 | index, language, length)
    return connection.control_in(setup, length, CONTROL_TIMEOUT)


def get_configuration(connection: Connection) -> int:
    """Return the value of the configuration that is set, 0 for none."""
    setup = setup_packet(_IN, _GET_CONFIGURATION, 0, 0, 1)
    return int.from_bytes(connection.control_in(setup, 1, CONTROL_TIMEOUT), "little")


def set_configuration(connection: Connection, value: int) -> None:
    """Set a configuration: the device drops what it was doing, and clears all halts."""
    _send(connection, _TO_DEVICE, _SET_CONFIGURATION, value, 0)


def set_interface(connection: Connection, interface: int, setting: int) -> None:
    """Choose an alternate setting of an interface."""
    _send(connection, _TO_INTERFACE, _SET_INTERFACE, setting, interface)


def clear_halt(connection: Connection, endpoint: int) -> None:
    """Clear the halt of an endpoint, given by its address."""
    _send(connection, _TO_ENDPOINT, _CLEAR_FEATURE, _ENDPOINT_HALT, endpoint)


def _send(connection: Connection, recipient: int, request: int, value: int, index: int) -> None:
    connection.control_out(setup_packet(_OUT | recipient, request, value, index, 0), timeout=CONTROL_TIMEOUT)
