"""Frames of a Jacdac bus and the packets in them, as values. No I/O.

    u16 CRC of the rest, u8 size of the data, u8 flags, u64 device, then packets, each from a multiple of 4:
    u8 payload size, u8 service index, u16 command, payload

Little-endian. Source: Jacdac's protocol reference, and jacdac-c for what receivers accept.
"""

import enum
import struct
from binascii import crc_hqx
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from aisrv.values.packet import U8, U16, U64, Packet

FRAME_HEADER_BYTES: Final = 12
PACKET_HEADER_BYTES: Final = 4
SMALLEST_DATA: Final = 4
LARGEST_DATA: Final = 240
"""Bytes of the packets of a frame."""
LARGEST_FRAME: Final = FRAME_HEADER_BYTES + LARGEST_DATA
LARGEST_PAYLOAD: Final = 232
"""Bytes that we send in a packet, which is jacdac-c's limit; 236 fit in a frame."""

MULTICAST_MARK: Final = 0xAAAAAAAA
"""The upper half of the device field of a multicast frame; the lower is the service class."""

CONTROL_INDEX: Final = 0x00
MULTICAST_INDEX: Final = 0x3D
PIPE_INDEX: Final = 0x3E
ACK_INDEX: Final = 0x3F
INDEX_MASK: Final = 0x3F
LAST_SERVICE_INDEX: Final = 0x30


class FrameError(ValueError):
    """Bytes that are not a frame; a receiver drops them."""


class FrameFlags(enum.IntFlag):
    """The flags of a frame."""

    NONE = 0
    COMMAND = 0x01
    """A command to the device of the frame; else a report of it."""
    ACK_REQUESTED = 0x02
    MULTICAST = 0x04
    """To all services of a class, in place of a device."""
    LOOPBACK = 0x40
    NEXT_VERSION = 0x80
    """Of a protocol to come: dropped."""


class JacdacPacket(Packet, byte_order="<", error=FrameError):
    """Base of what crosses a Jacdac bus."""


class FrameHeader(JacdacPacket, name="a frame's header"):
    """What a frame begins with."""

    crc: U16
    size: U8
    flags: U8
    device: U64


class PacketHeader(JacdacPacket, name="a packet's header"):
    """What a packet in a frame begins with."""

    size: U8
    index: U8
    command: U16


# A frame is taken apart for every device on the bus, so without an object for each header, and with plain
# numbers: an IntFlag in an expression costs as much as the rest of a short frame.
_FRAME_HEADER: Final = FrameHeader.struct_of("crc", "size", "flags", "device")
_PACKET_HEADER: Final = PacketHeader.struct_of("size", "index", "command")
_CHECKED: Final = FrameHeader.span_of("size", "device")
_new: Final = tuple.__new__  # a NamedTuple's own constructor takes three times as long
_SMALLEST_FRAME: Final = FRAME_HEADER_BYTES + SMALLEST_DATA
_ONE_PACKET: Final = struct.Struct(_CHECKED.format + _PACKET_HEADER.format.lstrip("<"))
_COMMAND: Final = FrameFlags.COMMAND.value
_MULTICAST: Final = FrameFlags.MULTICAST.value
_COMMAND_WITH_ACK: Final = (FrameFlags.COMMAND | FrameFlags.ACK_REQUESTED).value
_NEXT_VERSION: Final = FrameFlags.NEXT_VERSION.value


class ServicePacket(NamedTuple):
    """A command to a service, or a report of one."""

    service: int
    """Index of the service, 0 to 63."""
    command: int
    payload: bytes = b""


class Frame(NamedTuple):
    """The packets from or to one device."""

    device: int
    """The target of a command, the source of a report."""
    packets: tuple[ServicePacket, ...]
    flags: int = 0
    """Of `FrameFlags`; unknown ones are kept."""
    crc: int = -1
    """As it was received; -1 for a frame that has not been written yet."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a frame that is all of `data`; FrameError says why it is not one."""
        length = len(data)
        if length < _SMALLEST_FRAME:
            raise FrameError(f"a frame has {_SMALLEST_FRAME} bytes or more, not {length}")
        crc, size, flags, device = _FRAME_HEADER.unpack_from(data)
        if not SMALLEST_DATA <= size <= LARGEST_DATA:
            raise FrameError(f"the data of a frame have {SMALLEST_DATA} to {LARGEST_DATA} bytes, not {size}")
        if length != FRAME_HEADER_BYTES + size:
            raise FrameError(
                f"a frame with {size} bytes of data has {FRAME_HEADER_BYTES + size}, not {length}"
            )
        if flags & _NEXT_VERSION:
            raise FrameError("the frame is of a later version of the protocol")
        found = crc_hqx(data[2:], 0xFFFF)
        if found != crc:
            raise FrameError(f"the CRC is {found:#06x}, the frame says {crc:#06x}")
        packets = []
        start = FRAME_HEADER_BYTES
        while start < length:
            if start + PACKET_HEADER_BYTES > length:
                raise FrameError(f"the packet at {start} has no room for its header")
            payload_size, index, command = _PACKET_HEADER.unpack_from(data, start)
            start += PACKET_HEADER_BYTES
            end = start + payload_size
            if end > length:
                raise FrameError(f"a packet ends at {end}, past the frame's end at {length}")
            packets.append(_new(ServicePacket, (index & INDEX_MASK, command, data[start:end])))
            start = end + 3 & ~3
        return _new(cls, (device, tuple(packets), flags, crc))

    def __bytes__(self) -> bytes:
        parts = []
        for index, command, payload in self.packets:
            size = len(payload)
            if size > LARGEST_DATA - PACKET_HEADER_BYTES:
                raise FrameError(f"a payload of {size} bytes does not fit in a frame")
            parts.append(_PACKET_HEADER.pack(size, index, command) + payload + bytes(-size % 4))
        body = b"".join(parts)
        if not SMALLEST_DATA <= len(body) <= LARGEST_DATA:
            raise FrameError(
                f"the packets take {len(body)} bytes, a frame has {SMALLEST_DATA} to {LARGEST_DATA}"
            )
        checked = _CHECKED.pack(len(body), self.flags, self.device) + body
        return crc_hqx(checked, 0xFFFF).to_bytes(2, "little") + checked

    @property
    def is_command(self) -> bool:
        """Return whether it is for a device, or for the services of a class."""
        return bool(self.flags & _COMMAND)

    @property
    def multicast_class(self) -> int | None:
        """The service class that it is for; None for a frame that is for one device."""
        if not self.flags & _MULTICAST:
            return None
        return self.device & 0xFFFFFFFF


def frame_size(data: bytes) -> int:
    """Return how many bytes a frame that begins with `data` has; `data` must have three bytes or more."""
    return FRAME_HEADER_BYTES + data[2]


def command_frame(device: int, packets: Iterable[ServicePacket], *, ack: bool = False) -> bytes:
    """Return the bytes of a command frame to a device."""
    return bytes(Frame(device, tuple(packets), _COMMAND_WITH_ACK if ack else _COMMAND))


def multicast_frame(service_class: int, *packets: ServicePacket) -> bytes:
    """Return the bytes of a command frame to all services of a class."""
    device = MULTICAST_MARK << 32 | service_class
    return bytes(Frame(device, packets, _COMMAND | _MULTICAST))


def report_frame(device: int, *packets: ServicePacket) -> bytes:
    """Return the bytes of a report frame of a device."""
    return _with_one(device, packets[0]) if len(packets) == 1 else bytes(Frame(device, packets))


def ack_frame(device: int, crc: int) -> bytes:
    """Return the bytes with which a device acknowledges the frame that has this CRC."""
    return _with_one(device, ServicePacket(ACK_INDEX, crc))


def _with_one(device: int, packet: ServicePacket) -> bytes:
    """Return the bytes of a report frame with one packet, as nearly all are; quicker than a `Frame`."""
    index, command, payload = packet
    size = len(payload)
    if size > LARGEST_DATA - PACKET_HEADER_BYTES:
        raise FrameError(f"a payload of {size} bytes does not fit in a frame")
    padding = -size & 3
    header = _ONE_PACKET.pack(PACKET_HEADER_BYTES + size + padding, 0, device, size, index, command)
    checked = header + payload + bytes(padding)
    return crc_hqx(checked, 0xFFFF).to_bytes(2, "little") + checked
