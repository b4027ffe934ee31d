"""USB/IP messages as values: what a host and a device server say to each other over TCP.

Values only, no I/O. Layouts follow the Linux kernel's "USB/IP protocol" document (version 1.1.1);
every integer is big-endian, except the eight bytes of a control transfer's SETUP packet.
Other people's programs load this module through `host_tools/injection`: it stays readable to Python 3.8.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Self

PORT: Final = 3240
VERSION: Final = 0x0111
SPEED_HIGH: Final = 3
HEADER_SIZE: Final = 48
"""Bytes of every message after an import: SUBMIT, UNLINK and their replies."""

MAX_TRANSFER: Final = 16 * 1024 * 1024
"""Largest transfer a server accepts, in bytes: the limit that Linux's usbfs has."""

URB_ZERO_PACKET: Final = 0x40
"""Transfer flag of an OUT request: end with a packet of no bytes where the length is a multiple of 512."""


class UsbipError(ValueError):
    """Bytes that are no USB/IP message."""


class Operation(enum.IntEnum):
    """Codes of the exchange before an import."""

    REQ_DEVLIST = 0x8005
    REP_DEVLIST = 0x0005
    REQ_IMPORT = 0x8003
    REP_IMPORT = 0x0003


class Message(enum.IntEnum):
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


_OPERATION: Final = struct.Struct(">HHI")
_DEVICE: Final = struct.Struct(">256s32sIIIHHHBBBBBB")
BUSID_SIZE: Final = 32
OPERATION_SIZE: Final = _OPERATION.size
DEVICE_SIZE: Final = _DEVICE.size


@dataclass(frozen=True)
class OperationHeader:
    """The 8 bytes before every request and reply of the first phase."""

    code: int
    status: int = 0
    version: int = VERSION

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read 8 bytes; fewer are a UsbipError."""
        if len(data) < OPERATION_SIZE:
            raise UsbipError(f"a USB/IP operation has {OPERATION_SIZE} bytes, not {len(data)}")
        version, code, status = _OPERATION.unpack_from(data)
        return cls(code, status, version)

    def __bytes__(self) -> bytes:
        return _OPERATION.pack(self.version, self.code, self.status)


def pack_busid(busid: str) -> bytes:
    """A bus id as 32 bytes padded with NUL."""
    encoded = busid.encode()
    if b"\0" in encoded:
        raise UsbipError(f"bus id {busid!r} holds a NUL, which would end it")
    if len(encoded) >= BUSID_SIZE:
        raise UsbipError(f"bus id {busid!r} is longer than {BUSID_SIZE - 1} bytes")
    return encoded.ljust(BUSID_SIZE, b"\0")


def unpack_busid(data: bytes) -> str:
    """The text before the first NUL; bytes that are no text are shown escaped."""
    return bytes(data).split(b"\0", 1)[0].decode(errors="backslashreplace")


@dataclass(frozen=True)
class DeviceRecord:
    """One exported device: 312 bytes, followed in a device list by 4 bytes per interface."""

    busid: str
    path: str = ""
    bus_number: int = 1
    device_number: int = 1
    speed: int = SPEED_HIGH
    vendor: int = 0
    product: int = 0
    bcd_device: int = 0
    device_class: int = 0
    device_subclass: int = 0
    device_protocol: int = 0
    configuration_value: int = 0
    configuration_count: int = 1
    interface_count: int = 1

    @property
    def devid(self) -> int:
        """The number that SUBMIT and UNLINK carry: bus number over device number."""
        return self.bus_number << 16 | self.device_number

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read 312 bytes; fewer are a UsbipError."""
        if len(data) < DEVICE_SIZE:
            raise UsbipError(f"a USB/IP device record has {DEVICE_SIZE} bytes, not {len(data)}")
        path, busid, *numbers = _DEVICE.unpack_from(data)
        return cls(unpack_busid(busid), unpack_busid(path), *numbers)

    def __bytes__(self) -> bytes:
        return _DEVICE.pack(
            self.path.encode()[:255],
            pack_busid(self.busid),
            self.bus_number,
            self.device_number,
            self.speed,
            self.vendor,
            self.product,
            self.bcd_device,
            self.device_class,
            self.device_subclass,
            self.device_protocol,
            self.configuration_value,
            self.configuration_count,
            self.interface_count,
        )


SUBMIT_HEADER: Final = struct.Struct(">5I I i 3I 8s")
"""seqnum etc. of a SUBMIT: message, seqnum, devid, direction, endpoint, flags, length, then
start frame, packets, interval and the SETUP packet."""

REPLY_HEADER: Final = struct.Struct(">5I i i 3I 8x")
"""Of a RET_SUBMIT: message, seqnum, devid, direction, endpoint, status, actual length, then
start frame, packets and error count."""

_UNLINK = struct.Struct(">5I I 24x")
_RET_UNLINK = struct.Struct(">5I i 24x")
NO_ISO_PACKETS: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class Submit:
    """A transfer request; OUT data of `length` bytes follows it on the wire."""

    seqnum: int
    devid: int
    direction: int
    endpoint: int
    length: int
    flags: int = 0
    setup: bytes = bytes(8)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read 48 bytes; fewer, or another message, are a UsbipError."""
        _check_header(data, Message.CMD_SUBMIT)
        _, seqnum, devid, direction, endpoint, flags, length, _, _, _, setup = SUBMIT_HEADER.unpack_from(data)
        return cls(seqnum, devid, direction, endpoint, length, flags, setup)

    def __bytes__(self) -> bytes:
        return SUBMIT_HEADER.pack(
            Message.CMD_SUBMIT,
            self.seqnum,
            self.devid,
            self.direction,
            self.endpoint,
            self.flags,
            self.length,
            0,
            NO_ISO_PACKETS,
            0,
            self.setup,
        )


@dataclass(frozen=True)
class SubmitReply:
    """The end of a transfer; IN data of `actual_length` bytes follows it on the wire."""

    seqnum: int
    status: int
    actual_length: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read 48 bytes; fewer, or another message, are a UsbipError."""
        _check_header(data, Message.RET_SUBMIT)
        fields = REPLY_HEADER.unpack_from(data)
        return cls(fields[1], fields[5], fields[6])

    def __bytes__(self) -> bytes:
        return REPLY_HEADER.pack(
            Message.RET_SUBMIT, self.seqnum, 0, 0, 0, self.status, self.actual_length, 0, NO_ISO_PACKETS, 0
        )


@dataclass(frozen=True)
class Unlink:
    """Take back the request whose seqnum is `target`."""

    seqnum: int
    devid: int
    target: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read 48 bytes; fewer, or another message, are a UsbipError."""
        _check_header(data, Message.CMD_UNLINK)
        _, seqnum, devid, _, _, target = _UNLINK.unpack_from(data)
        return cls(seqnum, devid, target)

    def __bytes__(self) -> bytes:
        return _UNLINK.pack(Message.CMD_UNLINK, self.seqnum, self.devid, 0, 0, self.target)


@dataclass(frozen=True)
class UnlinkReply:
    """UNLINKED where the request was still pending, OKAY where it had already been answered."""

    seqnum: int
    status: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read 48 bytes; fewer, or another message, are a UsbipError."""
        _check_header(data, Message.RET_UNLINK)
        _, seqnum, _, _, _, status = _RET_UNLINK.unpack_from(data)
        return cls(seqnum, status)

    def __bytes__(self) -> bytes:
        return _RET_UNLINK.pack(Message.RET_UNLINK, self.seqnum, 0, 0, 0, self.status)


def _check_header(data: bytes, expected: Message) -> None:
    if len(data) < HEADER_SIZE:
        raise UsbipError(f"a USB/IP message has {HEADER_SIZE} bytes, not {len(data)}")
    code = int.from_bytes(data[:4], "big")
    if code != expected:
        raise UsbipError(f"expected {expected.name} ({expected.value}), got message {code}")
