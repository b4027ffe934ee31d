"""Reader of captures of USB traffic: pcapng and pcap files of usbmon and of USBPcap.

Sources: "PCAP Now Generic (pcapng) Capture File Format", draft-ietf-opsawg-pcapng; the Wireshark wiki,
Development/LibpcapFileFormat; Documentation/usb/usbmon.rst of the Linux kernel.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aisrv.values.printable import PrintableError
from phy.usb.taps.pcapng import ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER
from phy.usb.taps.usbmon import LINKTYPE_USB_LINUX_MMAPPED, EventType, TransferType, UsbmonEvent, UsbmonHeader
from phy.usb.taps.usbpcap import LINKTYPE_USBPCAP, UsbpcapError, UsbpcapEvents

LINKTYPE_USB_LINUX: Final = 189
"""Link type of packets with the first 48 bytes of usbmon's header only."""

_HEADER_SIZES: Final = {LINKTYPE_USB_LINUX: 48, LINKTYPE_USB_LINUX_MMAPPED: 64}
_BYTE_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_PCAP_MAGICS: Final = {
    b"\xd4\xc3\xb2\xa1": "<",
    b"\x4d\x3c\xb2\xa1": "<",
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xa1\xb2\x3c\x4d": ">",
}
"""Byte order by the magic of files with microseconds and nanoseconds; packets bring usbmon's own time."""


MOST_BLOCKS: Final = 1 << 20
"""Limit of blocks of one file: an empty one is 12 bytes there, and much more once read."""


class CaptureError(PrintableError):
    """A file that is not a capture of USB, or that is damaged; the text says where."""


@dataclass(frozen=True, slots=True)
class CapturedEvent:
    """An event with the number of its packet, from 1, as Wireshark counts."""

    number: int
    event: UsbmonEvent


@dataclass(frozen=True, slots=True)
class Capture:
    """The events of a capture in their order; iterate over it."""

    events: tuple[CapturedEvent, ...]
    cut_at: int | None
    """Offset of the first packet that is not whole, in bytes; None if all are."""

    def __iter__(self) -> Iterator[CapturedEvent]:
        return iter(self.events)


def read_capture(data: bytes) -> Capture:
    """Read a capture. Raises CaptureError for a file that is none of USB.

    A file that ends within a packet, as that of a process that was killed, gives the packets before it.
    """
    packets: list[tuple[int, bytes]] = []
    if data[:4] == struct.pack("<I", SECTION_HEADER):
        end = _pcapng(data, packets)
    elif data[:4] in _PCAP_MAGICS:
        end = _pcap(data, packets)
    else:
        raise CaptureError("neither a pcapng nor a pcap file")
    return Capture(tuple(_events(packets)), end if end < len(data) else None)


def _events(packets: Iterable[tuple[int, bytes]]) -> Iterator[CapturedEvent]:
    usbpcap = UsbpcapEvents()
    for number, (link_type, packet) in enumerate(packets, 1):
        if link_type == LINKTYPE_USBPCAP:
            try:
                event = usbpcap.event(packet)
            except UsbpcapError as error:
                raise CaptureError(f"packet {number} {error}") from None
            if event is not None:
                yield CapturedEvent(number, event)
            continue
        size = _HEADER_SIZES.get(link_type)
        if size is None:
            raise CaptureError(
                f"packet {number} has the link type {link_type}, "
                "not that of usbmon (220 or 189) or of USBPcap (249)"
            )
        if len(packet) < size:
            raise CaptureError(f"packet {number} has {len(packet)} of the {size} bytes of its header")
        yield CapturedEvent(number, _event(number, packet[:size].ljust(64, b"\0"), packet[size:]))


def _event(number: int, header: bytes, data: bytes) -> UsbmonEvent:
    fields = UsbmonHeader.from_bytes(header)
    try:
        event, transfer = EventType(fields.event), TransferType(fields.transfer)
    except ValueError as error:
        raise CaptureError(f"packet {number}: {error}, which usbmon does not know") from None
    return UsbmonEvent(
        urb=fields.urb,
        event=event,
        transfer=transfer,
        endpoint=fields.endpoint,
        device=fields.device,
        bus=fields.bus,
        timestamp=fields.seconds * 1_000_000_000 + fields.microseconds * 1000,
        status=fields.status,
        length=fields.length,
        data=data[: fields.captured],
        setup=fields.setup if fields.setup_flag == b"\0" and event is EventType.SUBMIT else None,
        zero_packet=bool(fields.flags & 0x40),
    )


def _pcap(data: bytes, packets: list[tuple[int, bytes]]) -> int:
    """Append link type and bytes of each packet; return where the last one ends."""
    order = _PCAP_MAGICS[data[:4]]
    if len(data) < 24:
        raise CaptureError(f"a pcap file of {len(data)} bytes is shorter than its header")
    (link_type,) = struct.unpack_from(f"{order}I", data, 20)
    place = 24
    while place + 16 <= len(data):
        _check_number(len(packets) + 1)
        (size,) = struct.unpack_from(f"{order}8xI", data, place)
        if place + 16 + size > len(data):
            break
        place += 16
        packets.append((link_type & 0xFFFF, data[place : place + size]))
        place += size
    return place


def _pcapng(data: bytes, packets: list[tuple[int, bytes]]) -> int:
    """Append link type and bytes of each packet; return where the last block ends."""
    order, place = "<", 0
    link_types: list[int] = []
    for number in itertools.count(1):
        if place + 12 > len(data):
            break
        _check_number(number)
        (kind,) = struct.unpack_from(f"{order}I", data, place)
        if kind == SECTION_HEADER:  # the same in both byte orders
            link_types = []
            found = _BYTE_ORDERS.get(data[place + 8 : place + 12])
            if found is None:
                raise CaptureError(f"the section at byte {place} has no byte order mark")
            order = found
        (size,) = struct.unpack_from(f"{order}I", data, place + 4)
        if size < 12 or size % 4:
            raise CaptureError(f"the block at byte {place} cannot have {size} bytes")
        if place + size > len(data):
            break
        body = data[place + 8 : place + size - 4]
        if kind == INTERFACE_DESCRIPTION and len(body) >= 2:
            link_types += struct.unpack_from(f"{order}H", body)
        elif kind == ENHANCED_PACKET and len(body) >= 20:
            interface, captured = struct.unpack_from(f"{order}I8xI", body)
            if interface >= len(link_types):
                raise CaptureError(f"the block at byte {place} is of an unknown interface {interface}")
            packets.append((link_types[interface], body[20 : 20 + captured]))
        place += size
    return place


def _check_number(number: int) -> None:
    if number > MOST_BLOCKS:
        raise CaptureError(f"more than {MOST_BLOCKS:,} packets; split it, as `editcap -c 1000000` does")
