"""Events of USB requests as Linux's usbmon records them.

Source: Documentation/usb/usbmon.rst of the Linux kernel, "Raw binary format and API"; which events carry data
and a SETUP packet, from drivers/usb/mon/mon_bin.c.
"""

import enum
from typing import Annotated, ClassVar, Final

from msgspec import Struct

from aisrv.values.packet import I32, I64, U8, U16, U32, U64, Packet, Pad4, Pad8, Wire

LINKTYPE_USB_LINUX_MMAPPED: Final = 220
"""Link type of packets that start with the 64-byte header."""

IN_PROGRESS: Final = -115
"""Status of a request that is submitted: EINPROGRESS."""

_FLAG_DIRECTION_IN: Final = 0x200
_FLAG_ZERO_PACKET: Final = 0x40
_ABSENT: Final = b"-"
_PRESENT: Final = b"\0"


class EventType(enum.IntEnum):
    """Event of a request."""

    SUBMIT = ord("S")
    COMPLETE = ord("C")
    ERROR = ord("E")


class TransferType(enum.IntEnum):
    """Kinds of transfers, in usbmon's numbering."""

    ISOCHRONOUS = 0
    INTERRUPT = 1
    CONTROL = 2
    BULK = 3


class UsbmonHeader(Packet, byte_order="<", name="a usbmon header"):
    """`struct mon_bin_hdr`, the 64 bytes before the data."""

    urb: U64
    event: U8
    transfer: U8
    endpoint: U8
    device: U8
    bus: U16
    setup_flag: Annotated[bytes, Wire("s")]
    data_flag: Annotated[bytes, Wire("s")]
    seconds: I64
    microseconds: I32
    status: I32
    length: U32
    captured: U32
    setup: Annotated[bytes, Wire("8s")]
    isochronous: ClassVar[Pad8]
    """Interval and start frame."""
    flags: U32
    descriptors: ClassVar[Pad4]


HEADER_SIZE: Final = UsbmonHeader.SIZE


class UsbmonEvent(Struct, frozen=True):
    """One event of one request (URB)."""

    urb: int
    """Number that the events of a request share."""
    event: EventType
    transfer: TransferType
    endpoint: int
    """Address; for endpoint 0, bit 7 is the direction of the data stage."""
    device: int
    bus: int
    timestamp: int
    """Nanoseconds since 1970."""
    status: int
    """0 or a negative errno of Linux."""
    length: int
    """SUBMIT: bytes sent or asked for. COMPLETE: bytes transferred."""
    data: bytes = b""
    """Data, or the first part of them."""
    setup: bytes | None = None
    """SETUP packet of a control request's SUBMIT."""
    zero_packet: bool = False

    @property
    def carries_data(self) -> bool:
        """Return whether the event is the one of its direction that has the data."""
        inwards = bool(self.endpoint & 0x80)
        return (self.event is EventType.COMPLETE) if inwards else (self.event is EventType.SUBMIT)

    @property
    def original_length(self) -> int:
        """Bytes of header and all data, kept or not."""
        return HEADER_SIZE + (self.length if self.carries_data else 0)

    def __bytes__(self) -> bytes:
        inwards = bool(self.endpoint & 0x80)
        flags = (_FLAG_DIRECTION_IN if inwards else 0) | (_FLAG_ZERO_PACKET if self.zero_packet else 0)
        seconds, nanoseconds = divmod(self.timestamp, 1_000_000_000)
        header = UsbmonHeader(
            self.urb,
            self.event,
            self.transfer,
            self.endpoint,
            self.device,
            self.bus,
            _ABSENT if self.setup is None else _PRESENT,
            self._data_flag(inwards),
            seconds,
            nanoseconds // 1000,
            self.status,
            self.length,
            len(self.data),
            self.setup or bytes(8),
            flags,
        )
        return bytes(header) + self.data

    def _data_flag(self, inwards: bool) -> bytes:
        if self.event is EventType.ERROR:
            return b"E"
        if self.carries_data:
            return _PRESENT
        return b"<" if inwards else b">"
