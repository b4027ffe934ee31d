"""Packets and files as USBPcap writes them, https://desowin.org/usbpcap/captureformat.html."""

import struct

from phy.usb.taps.capture_reader import CapturedEvent
from phy.usb.taps.usbmon import EventType, TransferType, UsbmonEvent

_STATUS = {0: 0, -32: 0xC000_0004, -104: 0xC001_0000}


def packet(
    irp: int,
    endpoint: int,
    data: bytes = b"",
    *,
    done: bool = False,
    status: int = 0,
    stage: int | None = None,
    transfer: int | None = None,
    bus: int = 1,
    device: int = 1,
) -> bytes:
    """One packet; with a stage it is one of a control transfer."""
    kind = transfer if transfer is not None else 3 if stage is None else 2
    tail = b"" if stage is None else bytes([stage])
    size = 27 + len(tail)
    return (
        struct.pack("<HQIHBHHBBI", size, irp, status, 9, done, bus, device, endpoint, kind, len(data))
        + tail
        + data
    )


def usbpcap_file(*packets: bytes) -> bytes:
    """A pcap file of the link type 249."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 249)
    return head + b"".join(struct.pack("<IIII", 0, 0, len(each), len(each)) + each for each in packets)


def as_usbpcap(events: list[CapturedEvent]) -> bytes:
    """What USBPcap would have written of the events of usbmon."""
    return usbpcap_file(*(_packet(each.event) for each in events))


def _packet(event: UsbmonEvent) -> bytes:
    done = event.event is EventType.COMPLETE
    status = _STATUS[event.status] if done else 0
    if event.transfer is not TransferType.CONTROL:
        return packet(event.urb, event.endpoint, event.data, done=done, status=status)
    if event.setup is not None:
        return packet(event.urb, event.setup[0] & 0x80, event.setup + event.data, stage=0)
    return packet(event.urb, event.endpoint, event.data, done=True, status=status, stage=3)
