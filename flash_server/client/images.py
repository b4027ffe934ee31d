"""Relocatable images in flash: read from the operators or execute-in-place segment, checked before use.

Code runs from a copy of an image, or in place, from memory that always equals the chip. Weights that are not
in their image come from another segment of the same engine, of operators or of parameters.
"""

import mmap
import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aisrv.model.relocatable.container import (
    HEADER_BYTES,
    MAGIC_BYTES,
    Context,
    Header,
    align4,
    is_image,
    offset,
)
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.stored import StoredHeader, merge
from aisrv.xcore.channels.array import own_pages
from flash_server.client.flash_channel import FlashChannel
from flash_server.image.headers import IMAGE_PARTS, WEIGHTS_PARTS, Part
from flash_server.protocol import FlashFailure, FlashReadError
from flash_server.server.live_segment import LiveSegment

PIECE_BYTES: Final = 1 << 17
"""Bytes that are read and checked in one go; other tasks run meanwhile."""

Window = Callable[[Sequence[tuple[Part, int]]], LiveSegment]
"""Opens the first bytes of segments for code that runs in place, as flash that is mapped into memory."""


class _Stored(NamedTuple):
    """Segment of something that is stored with a header."""

    part: Part
    header: StoredHeader

    @property
    def size(self) -> int:
        """Bytes of the segment, the header included."""
        return StoredHeader.SIZE + self.header.length


class InPlaceImage:
    """An image that runs from the segment in which it is stored."""

    offset: Final = StoredHeader.SIZE
    """Offset in the memory of the segment, in bytes."""

    def __init__(self, image: memoryview, segment: LiveSegment) -> None:
        self.image: Final = image
        """A copy of the image as it was checked."""
        self._segment = segment

    @property
    def descriptor(self) -> int:
        """File in memory that holds the segment."""
        return self._segment.descriptor

    @property
    def memory(self) -> mmap.mmap:
        """Memory of the segment."""
        return self._segment.memory

    @property
    def changes(self) -> int:
        """Number of changes of the chip there."""
        return self._segment.changes

    def close(self) -> None:
        """End the use of the segment."""
        self._segment.close()


async def read_image(flash: FlashChannel, limit: int) -> memoryview:
    """Read the image of the channel's engine, with its weights, and check length and CRC-32.

    Raises FlashReadError with ABSENT if the engine has no such segment, REFUSED for more than `limit` bytes,
    CORRUPT for one that is not as it was stored.
    """
    code, weights = await _find(flash)
    size = code.header.length + (weights.header.length if weights else 0)
    if size > limit:
        raise FlashReadError(
            FlashFailure.REFUSED,
            f"the relocatable image in flash has {size} bytes, there is room for {limit}",
        )
    image = own_pages(max(size, 1))

    def keep(_at: int, data: bytes) -> None:
        image.write(data)

    await _read(flash, code, keep)
    if weights is not None:
        await _read(flash, weights, keep)
        merge(image, code.header.length)
    return memoryview(image).toreadonly()[:size]


async def open_image(flash: FlashChannel, window: Window) -> InPlaceImage:
    """Open the image of the channel's engine to run in place, and check it; raises as `read_image`.

    Weights of their own are mapped behind it. Until it is closed the server refuses to write there.
    """
    code, weights = await _find(flash)
    parts = [code] if weights is None else [code, weights]
    try:
        segment = window([(each.part, each.size) for each in parts])
    except OSError as error:
        raise FlashReadError(
            FlashFailure.REFUSED, f"no memory to run {code.part.label} in place: {error}"
        ) from error
    try:
        memory = segment.memory
        for start, each in zip(segment.places, parts, strict=True):
            memory[start : start + StoredHeader.SIZE] = bytes(each.header)

            def keep(at: int, data: bytes, start: int = start) -> None:
                memory[start + at : start + at + len(data)] = data

            await _read(flash, each, keep)
        image = own_pages(max(code.header.length, 1))
        image.write(memory[StoredHeader.SIZE : code.size])
        if segment.changes:
            raise FlashReadError(FlashFailure.CORRUPT, f"{code.part.label}: written while it was read")
    except BaseException:
        segment.close()
        raise
    return InPlaceImage(memoryview(image).toreadonly()[: code.header.length], segment)


async def _find(flash: FlashChannel) -> tuple[_Stored, _Stored | None]:
    """Find the image of an engine, and its weights if they have a segment of their own."""
    sizes = await flash.read_sizes()
    parts = [part for part in IMAGE_PARTS if sizes[part]]
    if not parts:
        raise FlashReadError(FlashFailure.ABSENT, "the image has no model and no relocatable image")
    part = parts[0]
    for each in parts:
        if sizes[each] > StoredHeader.SIZE + len(MAGIC_BYTES) and is_image(
            await flash.read(each, StoredHeader.SIZE, len(MAGIC_BYTES))
        ):
            part = each
            break
    if sizes[part] < StoredHeader.SIZE:
        raise FlashReadError(FlashFailure.CORRUPT, f"{part.label} of {sizes[part]} bytes hold no image")
    header = StoredHeader.from_bytes(await flash.read(part, 0, StoredHeader.SIZE))
    if StoredHeader.SIZE + header.length > sizes[part]:
        raise FlashReadError(
            FlashFailure.CORRUPT,
            f"{part.label}: an image of {header.length} bytes in a segment of {sizes[part]}",
        )
    code = _Stored(part, header)
    return code, await _find_weights(flash, code, sizes)


async def _find_weights(flash: FlashChannel, code: _Stored, sizes: Sequence[int]) -> _Stored | None:
    """Find the weights of an image that has none of its own: the first of the stated length."""
    needed = await _missing_weights(flash, code)
    if not needed:
        return None
    for part in WEIGHTS_PARTS:
        if part is code.part or sizes[part] < StoredHeader.SIZE + needed:
            continue
        header = StoredHeader.from_bytes(await flash.read(part, 0, StoredHeader.SIZE))
        if header.length == needed:
            return _Stored(part, header)
    raise FlashReadError(
        FlashFailure.ABSENT,
        f"{code.part.label}: the image's {needed} bytes of weights are not beside it: "
        "pack them as operators or parameters of the same engine",
    )


async def _missing_weights(flash: FlashChannel, code: _Stored) -> int:
    """Return the bytes of weights that are not in a stored image; 0 for an invalid one, reported later."""
    if code.header.length < HEADER_BYTES:
        return 0
    try:
        header = Header.unpack_from(await flash.read(code.part, StoredHeader.SIZE, HEADER_BYTES))
    except ImageError:
        return 0
    at = align4(offset(header.data_data)) + offset(header.ctx)
    if header.weights_end or at + Context.SIZE > code.header.length:
        return 0
    return Context.from_bytes(await flash.read(code.part, StoredHeader.SIZE + at, Context.SIZE)).weights_size


async def _read(flash: FlashChannel, stored: _Stored, keep: Callable[[int, bytes], None]) -> None:
    """Read and check stored bytes; `keep` is called with each piece and its place in the segment."""
    part, header = stored
    crc = 0
    for at in range(0, header.length, PIECE_BYTES):
        piece = await flash.read(part, StoredHeader.SIZE + at, min(PIECE_BYTES, header.length - at))
        crc = zlib.crc32(piece, crc)
        keep(StoredHeader.SIZE + at, piece)
    try:
        header.check_crc(crc)
    except ImageError as error:
        raise FlashReadError(FlashFailure.CORRUPT, f"{part.label}: {error}") from error
