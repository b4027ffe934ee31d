"""USB/IP messages as values: what a host and a device server say to each other over TCP.

Values only, no I/O. Layouts follow the Linux kernel's "USB/IP protocol" document (version 1.1.1);
every integer is big-endian, except the eight bytes of a control transfer's SETUP packet.
Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import enum
from typing import Annotated, ClassVar, Final

from aisrv.values.packet import I32, U8, U16, U32, Packet, Pad1, Pad4, Pad8, Pad12, Pad24, Wire

PORT: Final = 3240
VERSION: Final = 0x0111
SPEED_HIGH: Final = 3
MAX_TRANSFER: Final = 16 * 1024 * 1024
"""Largest transfer a server accepts, in bytes: the limit that Linux's usbfs has."""

URB_ZERO_PACKET: Final = 0x40
"""Transfer flag of an OUT request: end with a packet of no bytes where the length is a multiple of 512."""


NO_ISO_PACKETS: Final = 0xFFFFFFFF
"""Number of packets of a transfer that is not isochronous."""


class UsbipError(ValueError):
    """Bytes that are not a USB/IP message."""


class Operation(enum.IntEnum):
    """Codes of the exchange before an import."""

    REQ_DEVLIST = 0x8005
    REP_DEVLIST = 0x0005
    REQ_IMPORT = 0x8003
    REP_IMPORT = 0x0003


class MessageCode(enum.IntEnum):
    """Codes of the messages after an import."""

    CMD_SUBMIT = 1
    CMD_UNLINK = 2
    RET_SUBMIT = 3
    RET_UNLINK = 4


class Direction(enum.IntEnum):
    """Which way a transfer's data goes."""

    OUT = 0
    IN = 1


class UrbStatus(enum.IntEnum):
    """Status of a request, the negative errno values of Linux."""

    OKAY = 0
    NO_MEMORY = -12
    """-ENOMEM: more data in flight than the server keeps."""
    NO_DEVICE = -19
    """-ENODEV: the device is gone."""
    INVALID = -22
    """-EINVAL: a request that makes no sense, such as one that is too large."""
    STALL = -32
    """-EPIPE: the transfer ended with a stall, as the endpoint is halted or refused the control request."""
    OVERFLOW = -75
    """-EOVERFLOW: the device sent more than the request had room for."""
    UNLINKED = -104
    """-ECONNRESET: the request was taken back before it was done."""
    SHUTDOWN = -108
    """-ESHUTDOWN: the endpoint or device was switched off."""


BUSID_SIZE: Final = 32
_PATH_SIZE: Final = 256


def pack_busid(busid: str) -> bytes:
    """A bus id as 32 bytes padded with NUL."""
    encoded = busid.encode()
    if b"\0" in encoded:
        raise UsbipError(f"bus id {busid!r} holds a NUL, which would end it")
    if len(encoded) >= BUSID_SIZE:
        raise UsbipError(f"bus id {busid!r} is longer than {BUSID_SIZE - 1} bytes")
    return encoded.ljust(BUSID_SIZE, b"\0")


def unpack_busid(data: bytes) -> str:
    """The text before the first NUL; bytes that are not text are shown escaped."""
    return bytes(data).split(b"\0", 1)[0].decode(errors="backslashreplace")


def _pack_path(path: str) -> bytes:
    return path.encode()[: _PATH_SIZE - 1]


Busid = Annotated[str, Wire(f"{BUSID_SIZE}s", unpack_busid, pack_busid)]
Path = Annotated[str, Wire(f"{_PATH_SIZE}s", unpack_busid, _pack_path)]
Setup = Annotated[bytes, Wire("8s")]


class UsbipPacket(Packet, byte_order=">", error=UsbipError):
    """Base of what crosses a USB/IP connection."""


class OperationHeader(UsbipPacket, kw_only=True, name="a USB/IP operation"):
    """The 8 bytes before every request and reply of the first phase."""

    version: U16 = VERSION
    code: U16
    status: U32 = 0


class DeviceRecord(UsbipPacket, kw_only=True, name="a USB/IP device record"):
    """One exported device: 312 bytes, followed in a device list by 4 bytes per interface."""

    path: Path = ""
    busid: Busid
    bus_number: U32 = 1
    device_number: U32 = 1
    speed: U32 = SPEED_HIGH
    vendor: U16 = 0
    product: U16 = 0
    bcd_device: U16 = 0
    device_class: U8 = 0
    device_subclass: U8 = 0
    device_protocol: U8 = 0
    configuration_value: U8 = 0
    configuration_count: U8 = 1
    interface_count: U8 = 1

    @property
    def devid(self) -> int:
        """The number that SUBMIT and UNLINK carry: bus number over device number."""
        return self.bus_number << 16 | self.device_number


class InterfaceRecord(UsbipPacket, name="a USB/IP interface record"):
    """One interface of a device in a device list."""

    interface_class: U8
    interface_subclass: U8
    interface_protocol: U8
    padding: ClassVar[Pad1]


class Submit(UsbipPacket, name="a USB/IP message"):
    """A transfer request; OUT data of `length` bytes follows it on the wire."""

    message: ClassVar[U32] = MessageCode.CMD_SUBMIT
    seqnum: U32
    devid: U32
    direction: U32
    endpoint: U32
    flags: U32 = 0
    length: U32 = 0
    start_frame: ClassVar[Pad4]
    iso_packets: U32 = NO_ISO_PACKETS
    interval: ClassVar[Pad4]
    setup: Setup = bytes(8)


class SubmitReply(UsbipPacket, name="a USB/IP message"):
    """The end of a transfer; IN data of `actual_length` bytes follows it on the wire."""

    message: ClassVar[U32] = MessageCode.RET_SUBMIT
    seqnum: U32
    transfer: ClassVar[Pad12]
    """devid, direction and endpoint, which a reply leaves out."""
    status: I32
    actual_length: I32
    start_frame: ClassVar[Pad4]
    iso_packets: U32 = NO_ISO_PACKETS
    error_count_and_padding: ClassVar[Pad12]


class Unlink(UsbipPacket, name="a USB/IP message"):
    """Take back the request whose seqnum is `target`."""

    message: ClassVar[U32] = MessageCode.CMD_UNLINK
    seqnum: U32
    devid: U32
    direction_and_endpoint: ClassVar[Pad8]
    target: U32
    padding: ClassVar[Pad24]


class UnlinkReply(UsbipPacket, name="a USB/IP message"):
    """UNLINKED where the request was still pending, OKAY where it had already been answered."""

    message: ClassVar[U32] = MessageCode.RET_UNLINK
    seqnum: U32
    transfer: ClassVar[Pad12]
    status: I32
    padding: ClassVar[Pad24]


HEADER_SIZE: Final = Submit.SIZE
"""Bytes of every message after an import: SUBMIT, UNLINK and their replies."""
