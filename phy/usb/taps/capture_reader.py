"""Reader of captures of USB traffic: pcapng and pcap files of usbmon and of USBPcap.

Sources: "PCAP Now Generic (pcapng) Capture File Format", draft-ietf-opsawg-pcapng; the Wireshark wiki,
Development/LibpcapFileFormat; Documentation/usb/usbmon.rst of the Linux kernel.
"""

import itertools
import struct
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from typing import BinaryIO, Final

from msgspec import Struct

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

LARGEST_CAPTURE: Final = 1 << 30
"""Bytes of a file."""
MOST_BLOCKS: Final = 1 << 18
"""Limit of blocks of one file: an empty one is 12 bytes there, and much more once read."""
LARGEST_PACKET: Final = 32 << 20
"""Bytes of a packet; a transfer that can be played has at most half as many."""

_EVENTS: Final = {each.value: each for each in EventType}
_TRANSFERS: Final = {each.value: each for each in TransferType}

Packets = Generator[tuple[int, bytes], None, int]
"""Link type and bytes of each packet; returns where the last one ends."""


class CaptureError(PrintableError):
    """A file that is not a capture of USB, or that is damaged; the text says where."""


class CapturedEvent(Struct, frozen=True):
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


def read_capture(data: bytes | BinaryIO) -> Capture:
    """Read a capture, its bytes or a file of them. Raises CaptureError for one that is none of USB, OSError.

    A file that ends within a packet, as that of a process that was killed, gives the packets before it.
    """
    file = BytesIO(data) if isinstance(data, bytes) else data
    size = file.seek(0, SEEK_END)
    file.seek(0)
    magic = file.read(4)
    if magic == struct.pack("<I", SECTION_HEADER):
        packets = _pcapng(file, size)
    elif magic in _PCAP_MAGICS:
        packets = _pcap(file, size, _PCAP_MAGICS[magic])
    else:
        raise CaptureError("neither a pcapng nor a pcap file")
    counted = _Ended(packets)
    events = tuple(_events(counted))
    return Capture(events, counted.end if counted.end < size else None)


class _Ended:
    """Packets, of which one knows at the end where the last one ended."""

    def __init__(self, packets: Packets) -> None:
        self._packets = packets
        self.end = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self.end = yield from self._packets


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
    event, transfer = _EVENTS.get(fields.event), _TRANSFERS.get(fields.transfer)
    if event is None:
        raise CaptureError(f"packet {number} has an event of type {fields.event}, which usbmon does not know")
    if transfer is None:
        raise CaptureError(
            f"packet {number} is of transfer type {fields.transfer}, which usbmon does not know"
        )
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


def _pcap(file: BinaryIO, total: int, order: str) -> Packets:
    header = file.read(20)
    if len(header) < 20:
        raise CaptureError(f"a pcap file of {total} bytes is shorter than its header")
    (link_type,) = struct.unpack_from(f"{order}I", header, 16)
    place, head = 24, struct.Struct(f"{order}8xI4x")
    for number in itertools.count(1):
        if place + head.size > total:
            break
        _check_number(number)
        (size,) = head.unpack(file.read(head.size))
        if place + head.size + size > total:
            break
        _check_size(place, size)
        yield link_type & 0xFFFF, file.read(size)
        place += head.size + size
    return place


def _pcapng(file: BinaryIO, total: int) -> Packets:
    order, place = "<", 0
    link_types: list[int] = []
    for number in itertools.count(1):
        if place + 12 > total:
            break
        _check_number(number)
        file.seek(place)
        head = file.read(12)
        (kind,) = struct.unpack_from(f"{order}I", head)
        if kind == SECTION_HEADER:  # the same in both byte orders
            link_types = []
            found = _BYTE_ORDERS.get(head[8:])
            if found is None:
                raise CaptureError(f"the section at byte {place} has no byte order mark")
            order = found
        (size,) = struct.unpack_from(f"{order}I", head, 4)
        if size < 12 or size % 4:
            raise CaptureError(f"the block at byte {place} cannot have {size} bytes")
        if place + size > total:
            break
        if kind == INTERFACE_DESCRIPTION and size >= 14:
            link_types += struct.unpack_from(f"{order}H", head, 8)
        elif kind == ENHANCED_PACKET and size >= 32:
            _check_size(place, size)
            body = head[8:] + file.read(size - 16)
            interface, captured = struct.unpack_from(f"{order}I8xI", body)
            if interface >= len(link_types):
                raise CaptureError(f"the block at byte {place} is of an unknown interface {interface}")
            yield link_types[interface], body[20 : 20 + captured]
        place += size
    return place


def _check_size(place: int, size: int) -> None:
    if size > LARGEST_PACKET:
        raise CaptureError(
            f"the packet at byte {place} has {size:,} bytes, at most {LARGEST_PACKET:,} are read"
        )


def _check_number(number: int) -> None:
    if number > MOST_BLOCKS:
        raise CaptureError(f"more than {MOST_BLOCKS:,} packets; split it, as `editcap -c 250000` does")
