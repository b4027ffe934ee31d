"""Parser of a stored image: the places of its parts, and the value that it was built from.

Parts other than models have no stored size: they reach to the next part or to the end of the data, so they
come back with the padding behind them.
"""

from dataclasses import dataclass

from flash_server.errors import LayoutError
from flash_server.image.build import DataPartition, EngineImage
from flash_server.image.detect import Read, detect
from flash_server.image.generations import ImageFormat
from flash_server.image.headers import (
    LENGTH_BYTES,
    PREFIX_BYTES,
    Header,
    Part,
    Segment,
    Segments,
    all_segment_limits,
    header_size,
    model_segment,
    parse_headers,
    where,
)
from flash_server.image.nibbles import swap_all


@dataclass(frozen=True, slots=True)
class ImageMap:
    """The places of everything in a sound image of `size` bytes.

    `parts` gives each engine's parts as their bytes lie, a model's without its length; `segments` with it.
    """

    size: int
    detected: ImageFormat
    """Generation and order of the nibbles."""
    headers: tuple[Header, ...]
    segments: tuple[Segments, ...]
    parts: tuple[Segments, ...]

    @property
    def headers_end(self) -> int:
        """End of the headers, in bytes from the start of the partition."""
        return header_size(self.detected.generation, len(self.headers))


def map_image(
    read: Read,
    size: int,
    engines: int | None = None,
    detected: ImageFormat | None = None,
    swapped: bool | None = None,
) -> ImageMap:
    """Find everything in an image of `size` bytes, of which only headers and models' lengths are read.

    `engines`, and `detected` or its `swapped`, are detected unless given. LayoutError for the first fault of
    any engine; see `segment_limits` for serving the sound engines of a damaged image.
    """
    prefix = read(0, min(size, PREFIX_BYTES))
    detected = detected or detect(prefix, size, read, swapped)
    headers = parse_headers(prefix, detected, engines)
    segments = all_segment_limits(headers, detected.generation, size)
    parts = []
    for engine, limits in enumerate(segments):
        model = limits.model
        if model:
            word = detected.normal(read(model.start, LENGTH_BYTES))
            if len(word) != LENGTH_BYTES:
                raise LayoutError(f"{where(engine, Part.MODEL, model.start)}: its length cannot be read")
            model = model_segment(engine, model, int.from_bytes(word, "little"))
        parts.append(Segments(model, limits.parameters, limits.operators, limits.xip))
    return ImageMap(size, detected, headers, segments, tuple(parts))


def parse(
    data: bytes | memoryview, engines: int | None = None, detected: ImageFormat | None = None
) -> DataPartition:
    """Parse a stored image, as `map_image` finds it, in normal order and with alignment 1.

    The parts of an image stored in normal order are views of `data`, those of a swapped one are new bytes.
    `engines` and `detected` are found unless given.
    """
    view = memoryview(data)
    found = map_image(lambda offset, size: bytes(view[offset : offset + size]), len(view), engines, detected)
    return DataPartition(
        tuple(EngineImage(*(_bytes(view, found, parts[part]) for part in Part)) for parts in found.parts),
        found.detected.generation,
        found.detected.swapped,
    )


def _bytes(view: memoryview, found: ImageMap, segment: Segment | None) -> bytes | memoryview | None:
    if segment is None:
        return None
    stored = view[segment.start : segment.end]
    return swap_all(stored) if found.detected.swapped else stored
