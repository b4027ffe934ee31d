"""An image as it is stored in an operators or execute-in-place segment: its length and its CRC-32 before it.

The container itself has neither. The image begins 8 bytes into the segment, which lies at a multiple of 4.
Weights that are not in their image are stored in the same way, in a segment of their own.
"""

import mmap
import zlib
from typing import Self

from aisrv.model.relocatable.container import HEADER_BYTES, PAGE, ROM, Header, Image
from aisrv.model.relocatable.errors import ImageError
from aisrv.values.packet import U32, Packet, replace


class StoredHeader(Packet, byte_order="<", error=ImageError, name="the header of a stored image"):
    """What lies before an image in flash."""

    length: U32
    crc: U32

    @classmethod
    def of(cls, image: bytes | memoryview) -> Self:
        """The header of an image."""
        return cls(len(image), zlib.crc32(image))

    def check(self, image: bytes | memoryview) -> None:
        """Raise ImageError where an image is not the one that was stored."""
        if len(image) != self.length:
            raise ImageError(f"a stored image of {self.length} bytes, {len(image)} are there")
        self.check_crc(zlib.crc32(image))

    def check_crc(self, found: int) -> None:
        """Raise ImageError for a CRC-32 other than that of the image that was stored."""
        if found != self.crc:
            raise ImageError(f"the stored image is damaged: its CRC-32 is {found:08x}, not {self.crc:08x}")


def stored(image: bytes | memoryview) -> bytes:
    """What a segment holds of an image, which is checked first; ImageError."""
    Image.from_bytes(image)
    return with_header(image)


def with_header(data: bytes | memoryview) -> bytes:
    """What a segment holds of an image, or of weights, as they are."""
    return bytes(StoredHeader.of(data)) + bytes(data)


def weights_place(image_end: int) -> int:
    """Where weights begin that are mapped behind an image, by where that ends: a page of their own."""
    return -(-image_end // PAGE) * PAGE + StoredHeader.SIZE


def merge(file: bytearray | mmap.mmap, size: int) -> None:
    """Make weights that lie behind an image of `size` bytes part of it: in its header."""
    ends = ROM << 28 | size, ROM << 28 | len(file)
    header = replace(Header.unpack_from(file[:HEADER_BYTES]), weights_start=ends[0], weights_end=ends[1])
    file[:HEADER_BYTES] = bytes(header)


def restored(segment: bytes | memoryview) -> memoryview:
    """The image at the start of a segment, which may go on behind it; ImageError unless it is sound."""
    image = checked(segment)
    Image.from_bytes(image)
    return image


def checked(segment: bytes | memoryview) -> memoryview:
    """What is stored at the start of a segment; ImageError unless length and CRC-32 are right."""
    header = StoredHeader.unpack_from(segment)
    data = memoryview(segment)[header.SIZE : header.SIZE + header.length]
    header.check(data)
    return data
