"""What the page shows of a flash chip's data partition: the segments of its engines."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flash_server.chip.partitions import DataImage

MOST_SEGMENTS: Final = 64


def shown_segments(image: "DataImage", start: int) -> list[list[object]]:
    """Return name, offset in the chip and bytes of the segments, `MOST_SEGMENTS` at most.

    `start` is the offset of the partition. An engine whose header is damaged has none.
    """
    from flash_server.errors import LayoutError
    from flash_server.image.headers import Part

    segments = (
        (engine, part, found[part])
        for engine, found in enumerate(image.engines)
        if not isinstance(found, LayoutError)
        for part in Part
    )
    shown = [
        [f"{part.label} {engine}", start + segment.start, segment.size]
        for engine, part, segment in segments
        if segment is not None
    ]
    return shown[:MOST_SEGMENTS]
