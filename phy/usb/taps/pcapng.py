"""Blocks of a pcapng file, as far as a capture needs them, in little-endian order.

Source: "PCAP Now Generic (pcapng) Capture File Format", draft-ietf-opsawg-pcapng, sections 3.1 (blocks), 3.5
(options), 4.1 to 4.3 (the three blocks).
"""

import struct
from dataclasses import dataclass
from typing import Final

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE_DESCRIPTION: Final = 1
ENHANCED_PACKET: Final = 6

_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_LENGTH_UNKNOWN: Final = -1

_END_OF_OPTIONS: Final = 0
_IF_NAME: Final = 2
_IF_DESCRIPTION: Final = 3
_IF_TSRESOL: Final = 9
_SHB_USERAPPL: Final = 4

_NANOSECONDS: Final = 9
"""Negative power of ten, the unit of timestamps."""


def _block(kind: int, body: bytes) -> bytes:
    """Return a body of a multiple of 4 bytes between the block's two lengths."""
    total = 12 + len(body)
    return struct.pack("<II", kind, total) + body + struct.pack("<I", total)


def _padding(size: int) -> bytes:
    return bytes(-size % 4)


def _options(options: dict[int, bytes]) -> bytes:
    parts = []
    for code, value in options.items():
        parts += [struct.pack("<HH", code, len(value)), value, _padding(len(value))]
    return b"".join(parts) + struct.pack("<HH", _END_OF_OPTIONS, 0)


@dataclass(frozen=True, slots=True)
class SectionHeader:
    """First block of a file; its length is left open, as blocks are added while the capture runs."""

    application: str

    def __bytes__(self) -> bytes:
        head = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, _LENGTH_UNKNOWN)
        return _block(SECTION_HEADER, head + _options({_SHB_USERAPPL: self.application.encode()}))


@dataclass(frozen=True, slots=True)
class InterfaceDescription:
    """A source of packets; interfaces are numbered from 0 by their order in the file."""

    link_type: int
    snap_length: int
    """Bytes of a packet that are kept at most, link header included."""
    name: str
    description: str

    def __bytes__(self) -> bytes:
        options = {
            _IF_NAME: self.name.encode(),
            _IF_DESCRIPTION: self.description.encode(),
            _IF_TSRESOL: bytes((_NANOSECONDS,)),
        }
        head = struct.pack("<HHI", self.link_type, 0, self.snap_length)
        return _block(INTERFACE_DESCRIPTION, head + _options(options))


@dataclass(frozen=True, slots=True)
class EnhancedPacket:
    """A packet, or the beginning of one that had `original_length` bytes."""

    interface: int
    timestamp: int
    """Nanoseconds since 1970."""
    data: bytes
    original_length: int

    def __bytes__(self) -> bytes:
        data = self.data
        high, low = divmod(self.timestamp, 1 << 32)
        head = struct.pack("<IIIII", self.interface, high, low, len(data), self.original_length)
        return _block(ENHANCED_PACKET, head + data + _padding(len(data)))
