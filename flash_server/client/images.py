"""Relocatable images in flash: read from the operators or execute-in-place segment, checked before use.

Code runs from a copy of an image, or in place, from memory that always holds what the chip does.
"""

import mmap
import zlib
from collections.abc import Callable
from typing import Final

from aisrv.relocatable.errors import ImageError
from aisrv.relocatable.stored import StoredHeader
from aisrv.xcore.array import own_pages
from flash_server.client.flash_channel import FlashChannel
from flash_server.image.headers import IMAGE_PARTS, Part
from flash_server.protocol import FlashFailure, FlashReadError
from flash_server.server.live_segment import LiveSegment

PIECE_BYTES: Final = 1 << 17
"""Bytes that are read and checked in one go; other tasks run meanwhile."""

Window = Callable[[Part, int], LiveSegment]
"""Opens the first bytes of a segment for code that runs in place, as flash that is mapped into memory."""


class InPlaceImage:
    """An image that runs from the segment in which it is stored."""

    offset: Final = StoredHeader.SIZE
    """Where it begins in the memory of the segment."""

    def __init__(self, image: memoryview, segment: LiveSegment) -> None:
        self.image: Final = image
        """A copy of the image as it was checked."""
        self._segment = segment

    @property
    def descriptor(self) -> int:
        """The file in memory that holds the segment."""
        return self._segment.descriptor

    @property
    def memory(self) -> mmap.mmap:
        """The memory of the segment."""
        return self._segment.memory

    @property
    def changes(self) -> int:
        """How often the chip was changed there."""
        return self._segment.changes

    def close(self) -> None:
        """Say that nothing runs from it any more."""
        self._segment.close()


async def read_image(flash: FlashChannel, limit: int) -> memoryview:
    """Read the image of the channel's engine and check its length and CRC-32.

    Raises FlashReadError with ABSENT where the engine has no such segment, REFUSED for more than `limit`
    bytes, CORRUPT for one that is not as it was stored.
    """
    part, header = await _find(flash)
    if header.length > limit:
        raise FlashReadError(
            FlashFailure.REFUSED,
            f"the relocatable image in flash has {header.length} bytes, there is room for {limit}",
        )
    return await _read(flash, part, header, lambda _at, _data: None)


async def open_image(flash: FlashChannel, window: Window) -> InPlaceImage:
    """Open the image of the channel's engine to run in place, and check it; raises as `read_image`.

    Until it is closed the server refuses to write where it lies.
    """
    part, header = await _find(flash)
    try:
        segment = window(part, StoredHeader.SIZE + header.length)
    except OSError as error:
        raise FlashReadError(
            FlashFailure.REFUSED, f"no memory to run {part.label} in place: {error}"
        ) from error
    try:
        memory = segment.memory
        memory[: StoredHeader.SIZE] = bytes(header)

        def keep(at: int, data: bytes) -> None:
            memory[at : at + len(data)] = data

        image = await _read(flash, part, header, keep)
        if segment.changes:
            raise FlashReadError(FlashFailure.CORRUPT, f"{part.label}: written while it was read")
    except BaseException:
        segment.close()
        raise
    return InPlaceImage(image, segment)


async def _find(flash: FlashChannel) -> tuple[Part, StoredHeader]:
    """Find the segment that holds an image, and what is stored before it."""
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
    return part, header


async def _read(
    flash: FlashChannel, part: Part, header: StoredHeader, keep: Callable[[int, bytes], None]
) -> memoryview:
    """Read an image and check it; `keep` is called with each piece and its place in the segment."""
    image = own_pages(max(header.length, 1))
    crc = 0
    for at in range(0, header.length, PIECE_BYTES):
        piece = await flash.read(part, StoredHeader.SIZE + at, min(PIECE_BYTES, header.length - at))
        crc = zlib.crc32(piece, crc)
        image.write(piece)
        keep(StoredHeader.SIZE + at, piece)
    try:
        header.check_crc(crc)
    except ImageError as error:
        raise FlashReadError(FlashFailure.CORRUPT, f"{part.label}: {error}") from error
    return memoryview(image).toreadonly()[: header.length]
