"""Relocatable images in flash: read from the operators or execute-in-place segment, checked before use."""

import zlib
from typing import Final

from aisrv.relocatable.errors import ImageError
from aisrv.relocatable.stored import StoredHeader
from aisrv.xcore.array import own_pages
from flash_server.client.flash_channel import FlashChannel
from flash_server.image.headers import IMAGE_PARTS
from flash_server.protocol import FlashFailure, FlashReadError

PIECE_BYTES: Final = 1 << 17
"""Bytes that are read and checked in one go; other tasks run meanwhile."""


async def read_image(flash: FlashChannel, limit: int) -> memoryview:
    """Read the image of the channel's engine and check its length and CRC-32.

    Raises FlashReadError with ABSENT where the engine has no such segment, REFUSED for more than `limit`
    bytes, CORRUPT for one that is not as it was stored.
    """
    sizes = await flash.read_sizes()
    part = next((part for part in IMAGE_PARTS if sizes[part]), None)
    if part is None:
        raise FlashReadError(FlashFailure.ABSENT, "the image has no model and no relocatable image")
    if sizes[part] < StoredHeader.SIZE:
        raise FlashReadError(FlashFailure.CORRUPT, f"{part.label} of {sizes[part]} bytes hold no image")
    header = StoredHeader.from_bytes(await flash.read(part, 0, StoredHeader.SIZE))
    if StoredHeader.SIZE + header.length > sizes[part]:
        raise FlashReadError(
            FlashFailure.CORRUPT,
            f"{part.label}: an image of {header.length} bytes in a segment of {sizes[part]}",
        )
    if header.length > limit:
        raise FlashReadError(
            FlashFailure.REFUSED,
            f"the relocatable image in flash has {header.length} bytes, there is room for {limit}",
        )
    image = own_pages(max(header.length, 1))
    crc = 0
    for at in range(0, header.length, PIECE_BYTES):
        piece = await flash.read(part, StoredHeader.SIZE + at, min(PIECE_BYTES, header.length - at))
        crc = zlib.crc32(piece, crc)
        image.write(piece)
    try:
        header.check_crc(crc)
    except ImageError as error:
        raise FlashReadError(FlashFailure.CORRUPT, f"{part.label}: {error}") from error
    return memoryview(image).toreadonly()[: header.length]
