"""An image as it is stored in an operators or execute-in-place segment: its length and its CRC-32 before it.

The container itself has neither. The image begins 8 bytes into the segment, which lies at a multiple of 4.
"""

import zlib
from typing import Self

from aisrv.packet import U32, Packet
from aisrv.relocatable.container import Image
from aisrv.relocatable.errors import ImageError


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
    return bytes(StoredHeader.of(image)) + bytes(image)


def restored(segment: bytes | memoryview) -> memoryview:
    """The image at the start of a segment, which may go on behind it; ImageError unless it is sound."""
    header = StoredHeader.unpack_from(segment)
    image = memoryview(segment)[header.SIZE : header.SIZE + header.length]
    header.check(image)
    Image.from_bytes(image)
    return image
