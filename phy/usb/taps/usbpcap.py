"""Events of USB requests as USBPcap records them on Windows, turned into those of usbmon.

Source: "USBPcap capture format specification", https:

desowin.org/usbpcap/captureformat.html; the codes of USBD_STATUS from Microsoft's usb.h. USBPcap does not
record how much room a host gave an IN request: its events have the length ROOM_UNKNOWN there.
"""

import enum
from typing import Final

from msgspec.structs import replace

from aisrv.protocol.usb_descriptors import DIRECTION_IN
from aisrv.protocol.usbip import UrbStatus
from aisrv.values.packet import U8, U16, U32, U64, Packet
from phy.usb.taps.usbmon import IN_PROGRESS, EventType, TransferType, UsbmonEvent

LINKTYPE_USBPCAP: Final = 249

ROOM_UNKNOWN: Final = -1
"""Length of an IN request's SUBMIT event."""

_TO_HOST: Final = 1
"""Bit of `info`: the driver below gives the request back."""
_SETUP_SIZE: Final = 8
_PROTOCOL_ERROR: Final = -71  # -EPROTO


class ControlStage(enum.IntEnum):
    """The byte that the header of a control transfer ends with."""

    SETUP = 0
    DATA = 1
    STATUS = 2
    COMPLETE = 3


class UsbpcapHeader(Packet, byte_order="<", name="a USBPcap header"):
    """`USBPCAP_BUFFER_PACKET_HEADER`, the 27 bytes that all packets begin with."""

    header_size: U16
    irp: U64
    status: U32
    function: U16
    info: U8
    bus: U16
    device: U16
    endpoint: U8
    transfer: U8
    data_length: U32


_STATUS: Final = {
    0x00000000: UrbStatus.OKAY,
    0xC0000004: UrbStatus.STALL,  # USBD_STATUS_STALL_PID
    0xC0000030: UrbStatus.STALL,  # USBD_STATUS_ENDPOINT_HALTED
    0xC0000008: UrbStatus.OVERFLOW,  # USBD_STATUS_DATA_OVERRUN
    0xC0007000: UrbStatus.SHUTDOWN,  # USBD_STATUS_DEVICE_GONE
    0xC0010000: UrbStatus.UNLINKED,  # USBD_STATUS_CANCELED
}


class UsbpcapError(ValueError):
    """A packet that is not one of USBPcap's."""


class UsbpcapEvents:
    """Turns packets into events, in their order; of a control transfer several packets are one event."""

    def __init__(self) -> None:
        self._control: dict[tuple[int, int], UsbmonEvent] = {}
        """Known parts of control transfers whose stages come in packets of their own."""

    def event(self, packet: bytes) -> UsbmonEvent | None:
        """Return the event that a packet completes, or None. Raises UsbpcapError."""
        if len(packet) < UsbpcapHeader.SIZE:
            raise UsbpcapError(f"has {len(packet)} of the {UsbpcapHeader.SIZE} bytes of its header")
        header = UsbpcapHeader.unpack_from(packet)
        if not UsbpcapHeader.SIZE <= header.header_size <= len(packet):
            raise UsbpcapError(f"has a header of {header.header_size} in a packet of {len(packet)} bytes")
        try:
            transfer = TransferType(header.transfer)
        except ValueError:
            return None  # what the driver was told, which is not a transfer
        data = packet[header.header_size :][: header.data_length]
        ends = bool(header.info & _TO_HOST)
        event = UsbmonEvent(
            urb=header.irp,
            event=EventType.COMPLETE if ends else EventType.SUBMIT,
            transfer=transfer,
            endpoint=header.endpoint,
            device=header.device,
            bus=header.bus,
            timestamp=0,
            status=_STATUS.get(header.status, _PROTOCOL_ERROR) if ends else IN_PROGRESS,
            length=header.data_length,
            data=data,
        )
        if transfer is TransferType.CONTROL:
            if header.header_size <= UsbpcapHeader.SIZE:
                raise UsbpcapError("is a control transfer without the byte of its stage")
            return self._stage(event, packet[UsbpcapHeader.SIZE])
        if not ends and header.endpoint & DIRECTION_IN:
            return replace(event, length=ROOM_UNKNOWN, data=b"")
        return event

    def _stage(self, event: UsbmonEvent, stage: int) -> UsbmonEvent | None:
        """Follow a control transfer: SETUP, DATA and STATUS, or in later versions SETUP and COMPLETE."""
        key = event.bus, event.urb
        is_first = event.event is EventType.SUBMIT
        if is_first and stage == ControlStage.SETUP:
            return self._setup(event)
        if is_first:  # OUT data that early versions record apart: what they belong to stays without
            return None
        if stage == ControlStage.DATA and not event.status:
            self._control[key] = event
            return None
        data = self._control.pop(key, None)
        return replace(event, length=data.length, data=data.data) if data is not None else event

    def _setup(self, event: UsbmonEvent) -> UsbmonEvent:
        setup, data = event.data[:_SETUP_SIZE], event.data[_SETUP_SIZE:]
        if len(setup) < _SETUP_SIZE:
            raise UsbpcapError(f"has {len(setup)} of the {_SETUP_SIZE} bytes of its SETUP packet")
        wanted = int.from_bytes(setup[6:], "little")
        inwards = bool(setup[0] & DIRECTION_IN) and wanted > 0
        return replace(
            event,
            endpoint=DIRECTION_IN if inwards else 0,
            length=wanted,
            data=b"" if inwards else data,
            setup=setup,
        )
