"""Control transfers of a capture: those that are played, their names, and differences of their answers."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from aisrv.addons.captures.replay.transfers import Transfer
from aisrv.protocol.usb_descriptors import (
    ConfigurationDescriptor,
    Descriptor,
    DescriptorType,
    DeviceDescriptor,
    DeviceQualifier,
    EndpointDescriptor,
    InterfaceDescriptor,
    Recipient,
    SetupPacket,
    StandardRequest,
)

_TYPE_BITS: Final = 0x60
"""Bits of bmRequestType that tell standard requests (0) from those of classes and vendors."""

_LAYOUTS: Final[dict[int, type[Descriptor]]] = {
    DescriptorType.DEVICE: DeviceDescriptor,
    DescriptorType.CONFIGURATION: ConfigurationDescriptor,
    DescriptorType.INTERFACE: InterfaceDescriptor,
    DescriptorType.ENDPOINT: EndpointDescriptor,
    DescriptorType.DEVICE_QUALIFIER: DeviceQualifier,
    DescriptorType.OTHER_SPEED_CONFIGURATION: ConfigurationDescriptor,
}

_OF_THE_STATE: Final = frozenset(
    {StandardRequest.GET_CONFIGURATION, StandardRequest.GET_STATUS, StandardRequest.GET_INTERFACE}
)
"""Requests that depend on a configuration: a device is configured when it is opened."""


def is_standard(setup: SetupPacket) -> bool:
    """Check whether a request is one of chapter 9 of USB 2.0."""
    return not setup.request_type & _TYPE_BITS


def restarts_commands(setup: SetupPacket) -> bool:
    """Check whether the device expects a command after this request."""
    return is_standard(setup) and setup.request in (
        StandardRequest.CLEAR_FEATURE,
        StandardRequest.SET_CONFIGURATION,
        StandardRequest.SET_INTERFACE,
    )


def describe(setup: SetupPacket) -> str:
    """Name a request: `GET_DESCRIPTOR of string 2`, or its numbers if it is no standard request."""
    if not is_standard(setup) or setup.request not in StandardRequest._value2member_map_:
        return (
            f"control request {setup.request:#04x} (type {setup.request_type:#04x}, "
            f"value {setup.value:#06x}, index {setup.index:#06x})"
        )
    name = StandardRequest(setup.request).name
    if setup.request == StandardRequest.GET_DESCRIPTOR:
        kind, index = setup.value >> 8, setup.value & 0xFF
        known = kind in DescriptorType._value2member_map_
        what = DescriptorType(kind).name.lower().replace("_", " ") if known else f"type {kind:#04x}"
        return f"{name} of {what} {index}" if kind == DescriptorType.STRING else f"{name} of {what}"
    if setup.request_type & 0x1F == Recipient.ENDPOINT:
        return f"{name} of endpoint {setup.index:#04x}"
    return f"{name} {setup.value}" if setup.value else name


def left_out(transfers: Sequence[Transfer]) -> set[int]:
    """Find the control transfers that are not played, by the numbers of their packets.

    SET_ADDRESS is the bus's business; requests about the configuration say nothing before one is set; and the
    text of a serial number is each device's own.
    """
    skipped: set[int] = set()
    serials: set[int] = {
        each.received[16]
        for each in transfers
        if each.setup is not None and _asks_for(each.setup, DescriptorType.DEVICE) and len(each.received) > 16
    }
    configured = False
    for each in transfers:
        setup = each.setup
        if setup is None or not is_standard(setup):
            continue
        if setup.request == StandardRequest.SET_CONFIGURATION:
            configured = True
        elif (
            setup.request == StandardRequest.SET_ADDRESS
            or (setup.request in _OF_THE_STATE and not configured)
            or (_asks_for(setup, DescriptorType.STRING) and setup.value & 0xFF in serials - {0})
        ):
            skipped.add(each.number)
    return skipped


def first_difference(
    setup: SetupPacket, expected: bytes, got: bytes, *, mask: bool
) -> tuple[str, str] | None:
    """Compare two answers to a request; return expected and actual values if they differ.

    `expected` may be the first bytes of an answer only. With `mask` the number of the string with the serial
    number is not compared.
    """
    masked = {16} if mask and _asks_for(setup, DescriptorType.DEVICE) else set()
    for place, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other and place not in masked:
            return _shown(setup, expected, place), _shown(setup, got, place)
    return None


def _asks_for(setup: SetupPacket, kind: DescriptorType) -> bool:
    return (
        is_standard(setup)
        and setup.request == StandardRequest.GET_DESCRIPTOR
        and setup.to_host
        and setup.value >> 8 == kind
    )


def _shown(setup: SetupPacket, data: bytes, place: int) -> str:
    """Name the field at a place, and its value; the byte if the field is unknown."""
    if is_standard(setup) and setup.request == StandardRequest.GET_DESCRIPTOR:
        start = 0
        while len(data) - start >= 2 and data[start] >= 2:
            if place < start + data[start]:
                found = _field(data[start : start + data[start]], place - start)
                if found is not None:
                    return found
                break
            start += data[start]
    return f"byte {place} {data[place]:#04x}"


def _field(descriptor: bytes, place: int) -> str | None:
    layout = _LAYOUTS.get(descriptor[1])
    if layout is None:
        return None
    for name, start, size in _spans(layout):
        if start <= place < start + size <= len(descriptor):
            value = int.from_bytes(descriptor[start : start + size], "little")
            what = DescriptorType(descriptor[1]).name.lower().replace("_", " ")
            return f"{name} of the {what} descriptor {value:#0{2 + 2 * size}x}"
    return None


def _spans(layout: type[Descriptor]) -> Iterable[tuple[str, int, int]]:
    return ((name, start, struct.calcsize(form)) for name, start, form in layout.layout())
