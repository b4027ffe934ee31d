"""The ioctls of Linux's usbfs as values: request codes and structures, in this machine's layout.

Sources: the Linux kernel's header `linux/usbdevice_fs.h` for codes and structures, its document "The
Linux-USB Host Side API", section "The USB character device nodes", for what they mean.
"""

import enum
from typing import ClassVar, Final, Self

from aisrv.values.packet import I32, U8, U32, Packet, Pad3, Pointer, replace

MEMORY_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that pending requests may take together, as `usbfs_memory_mb` of the kernel says by default."""

REQUEST_OVERHEAD: Final = 1024
"""Bytes that a request takes of that limit besides its data, roughly what the kernel counts."""

SPEED_HIGH: Final = 3

_GET_DRIVER_SIZE: Final = 4 + 256
_DISCONNECT_CLAIM_SIZE: Final = 8 + 256


class UsbfsPacket(Packet, byte_order="@"):
    """Base of usbfs's structures."""


class UInt(UsbfsPacket, name="an unsigned int"):
    """The number that many ioctls point to."""

    value: U32


class InterfaceSetting(UsbfsPacket, name="a usbfs interface setting"):
    """`struct usbdevfs_setinterface`."""

    interface: U32
    setting: U32


class DriverRequest(UsbfsPacket, name="a usbfs driver request"):
    """`struct usbdevfs_ioctl`: an ioctl for the driver of an interface."""

    interface: I32
    code: I32
    data: Pointer


class ConnectInfo(UsbfsPacket, name="a usbfs connect info"):
    """`struct usbdevfs_connectinfo`."""

    device_number: U32
    slow: U8 = 0
    padding: ClassVar[Pad3]


class Address(UsbfsPacket, name="an address"):
    """The pointer to a reaped request."""

    value: Pointer


class Urb(UsbfsPacket, name="a usbfs request"):
    """`struct usbdevfs_urb`: a transfer request in the client's memory."""

    kind: U8
    endpoint: U8
    status: I32 = 0
    flags: U32 = 0
    buffer: Pointer = 0
    """Address of the data; of a control transfer, of the SETUP packet that precedes them."""
    buffer_length: I32 = 0
    actual_length: I32 = 0
    start_frame: I32 = 0
    packet_count: I32 = 0
    error_count: I32 = 0
    signal: U32 = 0
    context: Pointer = 0

    def ended(self, status: int, actual_length: int) -> Self:
        """Return the request with its result: 0 or a negative errno, and the bytes transferred."""
        return replace(self, status=status, actual_length=actual_length, error_count=0)


def _code(number: int, size: int = 0, *, read: bool = False, write: bool = False) -> int:
    """Return a request code, as the macros of `asm-generic/ioctl.h` make it for type 'U'."""
    return (read << 31) | (write << 30) | size << 16 | ord("U") << 8 | number


class Ioctl(enum.IntEnum):
    """Request codes."""

    RESETEP = _code(3, UInt.SIZE, read=True)
    SETINTERFACE = _code(4, InterfaceSetting.SIZE, read=True)
    SETCONFIGURATION = _code(5, UInt.SIZE, read=True)
    GETDRIVER = _code(8, _GET_DRIVER_SIZE, write=True)
    SUBMITURB = _code(10, Urb.SIZE, read=True)
    DISCARDURB = _code(11)
    REAPURBNDELAY = _code(13, Address.SIZE, write=True)
    CLAIMINTERFACE = _code(15, UInt.SIZE, read=True)
    RELEASEINTERFACE = _code(16, UInt.SIZE, read=True)
    CONNECTINFO = _code(17, ConnectInfo.SIZE, write=True)
    IOCTL = _code(18, DriverRequest.SIZE, read=True, write=True)
    RESET = _code(20)
    CLEAR_HALT = _code(21, UInt.SIZE, read=True)
    DISCONNECT = _code(22)
    """Within IOCTL: take the interface from its kernel driver."""
    CONNECT = _code(23)
    """Within IOCTL: give the interface back to a kernel driver."""
    GET_CAPABILITIES = _code(26, UInt.SIZE, read=True)
    DISCONNECT_CLAIM = _code(27, _DISCONNECT_CLAIM_SIZE, read=True)
    DROP_PRIVILEGES = _code(30, UInt.SIZE, write=True)
    GET_SPEED = _code(31)


class Capability(enum.IntFlag):
    """Bits of the answer of GET_CAPABILITIES."""

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
