"""The ioctls of Linux's usbfs as values: request codes and structures, in this machine's layout.

Sources: the Linux kernel's header `linux/usbdevice_fs.h` for codes and structures, its document "The
Linux-USB Host Side API", section "The USB character device nodes", for what they mean.
"""

import enum
import struct
from dataclasses import dataclass, replace
from typing import Final, Self

MEMORY_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that pending requests may take together, as `usbfs_memory_mb` of the kernel says by default."""

REQUEST_OVERHEAD: Final = 1024
"""Bytes that a request takes of that limit besides its data, roughly what the kernel counts."""

SPEED_HIGH: Final = 3

_URB: Final = struct.Struct("@BBiIPiiiiiIP")
URB_SIZE: Final = _URB.size
UINT: Final = struct.Struct("@I")
INTERFACE_SETTING: Final = struct.Struct("@II")
DRIVER_REQUEST: Final = struct.Struct("@iiP")
CONNECT_INFO: Final = struct.Struct("@IB3x")
POINTER: Final = struct.Struct("@P")
_GET_DRIVER_SIZE: Final = 4 + 256
_DISCONNECT_CLAIM_SIZE: Final = 8 + 256


def _code(number: int, size: int = 0, *, read: bool = False, write: bool = False) -> int:
    """A request code, as the macros of `asm-generic/ioctl.h` make it for type 'U'."""
    return (read << 31) | (write << 30) | size << 16 | ord("U") << 8 | number


class Ioctl(enum.IntEnum):
    """Request codes."""

    RESETEP = _code(3, UINT.size, read=True)
    SETINTERFACE = _code(4, INTERFACE_SETTING.size, read=True)
    SETCONFIGURATION = _code(5, UINT.size, read=True)
    GETDRIVER = _code(8, _GET_DRIVER_SIZE, write=True)
    SUBMITURB = _code(10, URB_SIZE, read=True)
    DISCARDURB = _code(11)
    REAPURBNDELAY = _code(13, POINTER.size, write=True)
    CLAIMINTERFACE = _code(15, UINT.size, read=True)
    RELEASEINTERFACE = _code(16, UINT.size, read=True)
    CONNECTINFO = _code(17, CONNECT_INFO.size, write=True)
    IOCTL = _code(18, DRIVER_REQUEST.size, read=True, write=True)
    RESET = _code(20)
    CLEAR_HALT = _code(21, UINT.size, read=True)
    DISCONNECT = _code(22)
    """Within IOCTL: take the interface from its kernel driver."""
    CONNECT = _code(23)
    """Within IOCTL: give the interface back to a kernel driver."""
    GET_CAPABILITIES = _code(26, UINT.size, read=True)
    DISCONNECT_CLAIM = _code(27, _DISCONNECT_CLAIM_SIZE, read=True)
    DROP_PRIVILEGES = _code(30, UINT.size, write=True)
    GET_SPEED = _code(31)


class Capability(enum.IntFlag):
    """What GET_CAPABILITIES answers."""

    ZERO_PACKET = 0x01
    NO_PACKET_SIZE_LIM = 0x04
    BULK_SCATTER_GATHER = 0x08


class UrbType(enum.IntEnum):
    """Kind of transfer."""

    ISO = 0
    INTERRUPT = 1
    CONTROL = 2
    BULK = 3


class UrbFlag(enum.IntFlag):
    """Flags of a request."""

    SHORT_NOT_OK = 0x01
    ISO_ASAP = 0x02
    BULK_CONTINUATION = 0x04
    NO_FSBR = 0x20
    ZERO_PACKET = 0x40
    NO_INTERRUPT = 0x80


KNOWN_FLAGS: Final = sum(UrbFlag)


class UsbfsError(Exception):
    """An ioctl that fails with an errno."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.errno: Final = number


@dataclass(frozen=True, slots=True)
class Urb:
    """`struct usbdevfs_urb`: a transfer request in the client's memory."""

    kind: int
    endpoint: int
    status: int = 0
    flags: int = 0
    buffer: int = 0
    """Address of the data; of a control transfer, of the SETUP packet that precedes them."""
    buffer_length: int = 0
    actual_length: int = 0
    start_frame: int = 0
    packet_count: int = 0
    error_count: int = 0
    signal: int = 0
    context: int = 0

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read URB_SIZE bytes; another number is a ValueError."""
        if len(data) != URB_SIZE:
            raise ValueError(f"a usbfs request has {URB_SIZE} bytes, not {len(data)}")
        return cls(*_URB.unpack(data))

    def __bytes__(self) -> bytes:
        return _URB.pack(
            self.kind,
            self.endpoint,
            self.status,
            self.flags,
            self.buffer,
            self.buffer_length,
            self.actual_length,
            self.start_frame,
            self.packet_count,
            self.error_count,
            self.signal,
            self.context,
        )

    def ended(self, status: int, actual_length: int) -> "Urb":
        """The request with its result: 0 or a negative errno, and the bytes that crossed."""
        return replace(self, status=status, actual_length=actual_length, error_count=0)
