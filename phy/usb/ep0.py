"""Endpoint 0: the task that answers control transfers.

Source: Universal Serial Bus Specification 2.0, section 9.4. Whatever is not a standard request that the
device supports is refused with STALL.
"""

import struct
from collections.abc import Callable
from typing import Final

import trio

from aisrv.protocol.usb_descriptors import ENDPOINT_HALT, Recipient, SetupPacket, StandardRequest
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.xud import CALLS_AT_ONCE, InEndpoint, OutEndpoint

_TO_DEVICE: Final = 0x00
_TO_HOST: Final = 0x80
_ADDRESS_MASK: Final = 0x8F


class _Refused(Exception):
    """A request that is answered with STALL."""


def _endpoint(bus: UsbBus, setup: SetupPacket) -> InEndpoint | OutEndpoint:
    endpoint = bus.endpoints.get(setup.index & _ADDRESS_MASK) if bus.configuration else None
    if endpoint is None:
        raise _Refused
    return endpoint


def _is_endpoint_zero(setup: SetupPacket) -> bool:
    return not setup.index & 0x0F


def _require_interface(bus: UsbBus, setup: SetupPacket) -> None:
    interfaces = bus.descriptors.configuration.interfaces
    if not bus.configuration or setup.index >= len(interfaces):
        raise _Refused


def _get_device_status(_bus: UsbBus, _setup: SetupPacket) -> bytes:
    return struct.pack("<H", 0)  # bus-powered, no remote wake-up


def _get_interface_status(bus: UsbBus, setup: SetupPacket) -> bytes:
    _require_interface(bus, setup)
    return struct.pack("<H", 0)


def _get_endpoint_status(bus: UsbBus, setup: SetupPacket) -> bytes:
    halted = not _is_endpoint_zero(setup) and _endpoint(bus, setup).halted
    return struct.pack("<H", halted)


def _clear_halt(bus: UsbBus, setup: SetupPacket) -> bytes:
    if setup.value != ENDPOINT_HALT:
        raise _Refused
    if not _is_endpoint_zero(setup):
        _endpoint(bus, setup).clear_halt()
    return b""


def _set_halt(bus: UsbBus, setup: SetupPacket) -> bytes:
    if setup.value != ENDPOINT_HALT:
        raise _Refused
    if not _is_endpoint_zero(setup):
        _endpoint(bus, setup).halt()
    return b""


def _set_address(bus: UsbBus, setup: SetupPacket) -> bytes:
    if setup.value > 127:
        raise _Refused
    bus.address = setup.value
    return b""


def _get_descriptor(bus: UsbBus, setup: SetupPacket) -> bytes:
    found = bus.descriptors.find(setup.value >> 8, setup.value & 0xFF)
    if found is None:
        raise _Refused
    return found


def _get_configuration(bus: UsbBus, _setup: SetupPacket) -> bytes:
    return bytes((bus.configuration,))


def _set_configuration(bus: UsbBus, setup: SetupPacket) -> bytes:
    if setup.value not in (0, bus.descriptors.configuration.value):
        raise _Refused
    bus.configure(setup.value)
    return b""


def _get_interface(bus: UsbBus, setup: SetupPacket) -> bytes:
    _require_interface(bus, setup)
    return bytes(1)


def _set_interface(bus: UsbBus, setup: SetupPacket) -> bytes:
    _require_interface(bus, setup)
    if setup.value:
        raise _Refused
    for endpoint in bus.endpoints.values():
        endpoint.reset()
    return b""


Handler = Callable[[UsbBus, SetupPacket], bytes]

HANDLERS: Final[dict[tuple[int, int], Handler]] = {
    (_TO_HOST | Recipient.DEVICE, StandardRequest.GET_STATUS): _get_device_status,
    (_TO_HOST | Recipient.INTERFACE, StandardRequest.GET_STATUS): _get_interface_status,
    (_TO_HOST | Recipient.ENDPOINT, StandardRequest.GET_STATUS): _get_endpoint_status,
    (_TO_DEVICE | Recipient.ENDPOINT, StandardRequest.CLEAR_FEATURE): _clear_halt,
    (_TO_DEVICE | Recipient.ENDPOINT, StandardRequest.SET_FEATURE): _set_halt,
    (_TO_DEVICE | Recipient.DEVICE, StandardRequest.SET_ADDRESS): _set_address,
    (_TO_HOST | Recipient.DEVICE, StandardRequest.GET_DESCRIPTOR): _get_descriptor,
    (_TO_HOST | Recipient.DEVICE, StandardRequest.GET_CONFIGURATION): _get_configuration,
    (_TO_DEVICE | Recipient.DEVICE, StandardRequest.SET_CONFIGURATION): _set_configuration,
    (_TO_HOST | Recipient.INTERFACE, StandardRequest.GET_INTERFACE): _get_interface,
    (_TO_DEVICE | Recipient.INTERFACE, StandardRequest.SET_INTERFACE): _set_interface,
}


def answer(bus: UsbBus, request: ControlUrb) -> None:
    """Answer one control transfer."""
    setup = request.setup
    handler = HANDLERS.get((setup.request_type, setup.request))
    try:
        if handler is None:
            raise _Refused
        data = handler(bus, setup)
    except _Refused:
        request.stall()
    else:
        request.answer(data)


async def usb_ep0(bus: UsbBus) -> None:
    """Answer control transfers until cancelled."""
    while True:
        for _ in range(CALLS_AT_ONCE):
            answer(bus, await bus.get_setup())
        await trio.lowlevel.cancel_shielded_checkpoint()  # those that are there already do not wait
