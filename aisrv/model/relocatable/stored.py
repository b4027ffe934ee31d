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
    """Words before an image in flash."""

    length: U32
    crc: U32

    @classmethod
    def of(cls, image: bytes | memoryview) -> Self:
        return cls(len(image), zlib.crc32(image))

    def check(self, image: bytes | memoryview) -> None:
        """Raise ImageError for another image than the one that was stored."""
        if len(image) != self.length:
            raise ImageError(f"a stored image of {self.length} bytes, {len(image)} are there")
        self.check_crc(zlib.crc32(image))

    def check_crc(self, found: int) -> None:
        """Raise ImageError for a CRC-32 other than that of the image that was stored."""
        if found != self.crc:
            raise ImageError(f"the stored image is damaged: its CRC-32 is {found:08x}, not {self.crc:08x}")


def stored(image: bytes | memoryview) -> bytes:
    """Return the segment of an image, which is checked first. Raises ImageError."""
    Image.from_bytes(image)
    return with_header(image)


def with_header(data: bytes | memoryview) -> bytes:
    """Return the segment of an image, or of weights, as they are."""
    return bytes(StoredHeader.of(data)) + bytes(data)


def weights_place(image_end: int) -> int:
    """Return the offset of weights that are mapped behind an image, by its end: a page of their own."""
    return -(-image_end // PAGE) * PAGE + StoredHeader.SIZE


def merge(file: bytearray | mmap.mmap, size: int) -> None:
    """Make weights that lie behind an image of `size` bytes part of it: in its header."""
    ends = ROM << 28 | size, ROM << 28 | len(file)
    header = replace(Header.unpack_from(file[:HEADER_BYTES]), weights_start=ends[0], weights_end=ends[1])
    file[:HEADER_BYTES] = bytes(header)


def restored(segment: bytes | memoryview) -> memoryview:
    """Return the image at the start of a segment, which may go on behind it. Raises ImageError."""
    image = checked(segment)
    Image.from_bytes(image)
    return image


def checked(segment: bytes | memoryview) -> memoryview:
    """Return the data at the start of a segment. Raises ImageError for a wrong length or CRC-32."""
    header = StoredHeader.unpack_from(segment)
    data = memoryview(segment)[header.SIZE : header.SIZE + header.length]
    header.check(data)
    return data
