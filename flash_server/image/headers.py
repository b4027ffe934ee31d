"""The headers of the data partition, and the segment of flash that each of their offsets stands for.

A header is four u32, least significant byte first: the offsets of an engine's model, parameters, operators
and execute-in-place data from the start of the data partition; 0 stands for an absent part ("XCORE AI server:
numbers and wire behavior", section Flash). Neither the number of headers nor the sizes of parts are stored,
except the model's, so both follow from the offsets.

**How many engines.** The parts begin behind the headers: the smallest offset that is not 0 bounds them.
Headers are taken from the front while the next one ends at or below the smallest offset so far; sixteen bytes
of FF are padding, not a header. At most `MAX_ENGINES` are taken: an engine's number is one byte on the wire.

**Where a part ends.** At the next larger offset of any engine, or at the end of the partition. Where parts
begin at one address, only one has bytes, and the others are empty: the model, which always has its length;
without a model the last in the order of the headers, because packers write an empty part in front of what
follows.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, TypeVar

from aisrv.values.packet import U32, Packet
from flash_server.errors import LayoutError
from flash_server.image.generations import Generation, ImageFormat
from flash_server.image.steps import Steps, finish

T = TypeVar("T")

LENGTH_BYTES: Final = 4
"""Bytes of the u32 in front of a model."""

MAX_ENGINES: Final = 256

ENGINES_A_STEP: Final = 16
"""Headers that are handled before other tasks have their turn."""


class Part(IntEnum):
    """The parts of an engine, in the order of its header and of the packed image."""

    MODEL = 0
    """A `.tflite` file, with its length in front."""
    PARAMETERS = 1
    """Parameters that operators load."""
    OPERATORS = 2
    """Binaries of operators."""
    XIP = 3
    """Execute-in-place data."""

    @property
    def label(self) -> str:
        """Name in messages, options and file names."""
        return self.name.lower()


IMAGE_PARTS: Final = (Part.OPERATORS, Part.XIP)
"""Parts with relocatable images; the first segment that begins with one counts."""

WEIGHTS_PARTS: Final = (Part.OPERATORS, Part.PARAMETERS)
"""Parts with weights that are not in their image; the first of the stated length counts."""


class Header(Packet, byte_order="<", error=LayoutError, name="a header"):
    """The offsets of one engine's parts from the start of the data partition, in bytes; 0 = absent."""

    model: U32 = 0
    parameters: U32 = 0
    operators: U32 = 0
    xip: U32 = 0

    def __post_init__(self) -> None:
        for part in Part:
            if not 0 <= self[part] < 1 << 32:
                raise LayoutError(f"{part.label} at {self[part]:#x}: an offset is a u32")

    def __getitem__(self, part: Part) -> int:
        return (self.model, self.parameters, self.operators, self.xip)[part]


HEADER_BYTES: Final = Header.SIZE


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes `start` to `end - 1` of the data partition."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ByPart(Generic[T]):
    """A value for each part of an engine; None = absent."""

    model: T | None = None
    parameters: T | None = None
    operators: T | None = None
    xip: T | None = None

    def __getitem__(self, part: Part) -> T | None:
        return (self.model, self.parameters, self.operators, self.xip)[part]


class Segments(ByPart[Segment]):
    """Upper limits of the parts of one engine. A model's includes its length."""

    __slots__ = ()


def where(engine: int, part: Part, address: int) -> str:
    """Return the start of a message about a part at an `address` of the partition in bytes."""
    return f"engine {engine}: {part.label} at {address:#x}"


def header_size(generation: Generation, engines: int = MAX_ENGINES) -> int:
    """Return the bytes up to the end of the headers; without `engines`, of the most headers possible."""
    return len(generation.preamble) + HEADER_BYTES * engines


PREFIX_BYTES: Final = header_size(Generation.FAST)
"""Bytes of a partition that are enough for detection and for all headers; a smaller one is read whole."""


def check_engines(engines: int) -> None:
    """Raise LayoutError unless an image may have this many engines."""
    if not 1 <= engines <= MAX_ENGINES:
        raise LayoutError(f"an image has 1 to {MAX_ENGINES} engines, not {engines}")


def parse_headers(prefix: bytes, detected: ImageFormat, engines: int | None = None) -> tuple[Header, ...]:
    """Run `parse_headers_in_steps` in one go."""
    return finish(parse_headers_in_steps(prefix, detected, engines))


def parse_headers_in_steps(
    prefix: bytes, detected: ImageFormat, engines: int | None = None
) -> Steps[tuple[Header, ...]]:
    """Parse the headers in the first stored bytes of a partition, which need not be more than `PREFIX_BYTES`.

    Without `engines` their number follows from the offsets. The offsets themselves are not judged here: one
    engine's broken header is its own trouble (`segment_limits`). LayoutError if the prefix ends before the
    headers do, if there is no preamble of the generation, or if nothing tells the number of engines.
    """
    preamble = detected.generation.preamble
    if detected.normal(prefix[: len(preamble)]) != preamble:
        raise LayoutError(f"the data partition does not begin like one of generation {detected}")
    if engines is not None:
        check_engines(engines)
        end = header_size(detected.generation, engines)
        if len(prefix) < end:
            raise LayoutError(
                f"the headers of {engines} engines end at {end:#x}, the data already at {len(prefix):#x}"
            )
        body = detected.normal(prefix[len(preamble) : end])
        return tuple(Header.unpack_from(body, start) for start in range(0, len(body), HEADER_BYTES))
    found: list[Header] = []
    bound = 1 << 32
    for address, header in _walk(prefix, detected):
        if address + HEADER_BYTES > bound or bytes(header) == b"\xff" * HEADER_BYTES:
            break
        found.append(header)
        if not len(found) % ENGINES_A_STEP:
            yield
        bound = min([bound, *(header[part] for part in Part if header[part])])
    else:
        end = header_size(detected.generation, len(found))
        if len(found) < MAX_ENGINES and end + HEADER_BYTES <= bound:
            raise LayoutError(f"{_first_part(found)}the data ends at {len(prefix):#x}, within the headers")
    if bound == 1 << 32:
        raise LayoutError("no header names a part: the image holds nothing, or give the number of engines")
    return tuple(found)


def _first_part(headers: Sequence[Header]) -> str:
    """Return the start of a message about the part that lies first of all."""
    named = [
        (header[part], engine, part) for engine, header in enumerate(headers) for part in Part if header[part]
    ]
    if not named:
        return f"engine {len(headers)}: "
    address, engine, part = min(named)
    return f"{where(engine, part, address)}: "


def _walk(prefix: bytes, detected: ImageFormat) -> Iterator[tuple[int, Header]]:
    """Yield all possible headers, each with its address; nothing tells yet where they end."""
    start = header_size(detected.generation, 0)
    whole = min((len(prefix) - start) // HEADER_BYTES, MAX_ENGINES)
    body = detected.normal(prefix[start : start + whole * HEADER_BYTES])
    for place in range(0, len(body), HEADER_BYTES):
        yield start + place, Header.unpack_from(body, place)


def segment_limits(headers: Sequence[Header], engine: int, generation: Generation, size: int) -> Segments:
    """Return the limits of one engine's parts: the next offset of any engine, or the partition's end.

    `size` is that of the data partition in bytes. Only this engine's offsets are judged, so that an engine
    with a good header can be served beside one with a broken header: LayoutError if one of them lies inside
    the headers, at or past the end of the partition (an empty part may begin at the end), or if two engines'
    models begin at one address.
    """
    return _limits(headers, engine, generation, size, finish(_bounds(headers)))


def judge_segments_in_steps(
    headers: Sequence[Header], generation: Generation, size: int
) -> Steps[tuple[Segments | LayoutError, ...]]:
    """Compute `segment_limits` of every engine for `size` bytes, or its error, in linear time."""
    bounds = yield from _bounds(headers)
    judged: list[Segments | LayoutError] = []
    for engine in range(len(headers)):
        if engine and not engine % ENGINES_A_STEP:
            yield
        try:
            judged.append(_limits(headers, engine, generation, size, bounds))
        except LayoutError as error:
            judged.append(error)
    return tuple(judged)


def all_segment_limits(headers: Sequence[Header], generation: Generation, size: int) -> tuple[Segments, ...]:
    """Return `segment_limits` of every engine of a partition of `size` bytes. Raises LayoutError."""
    bounds = finish(_bounds(headers))
    return tuple(_limits(headers, engine, generation, size, bounds) for engine in range(len(headers)))


def model_segment(engine: int, segment: Segment, length: int) -> Segment:
    """Return a model's bytes behind its length; LayoutError if they would leave the model's segment."""
    start = segment.start + LENGTH_BYTES
    if start + length > segment.end:
        raise LayoutError(
            f"{where(engine, Part.MODEL, segment.start)}: its length says {length} bytes, which would end at "
            f"{start + length:#x}, but the next part, or the end of the data, is at {segment.end:#x}"
        )
    return Segment(start, start + length)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The ends of parts: all offsets in order, and the part that has the bytes at each."""

    offsets: list[int]
    owners: dict[int, tuple[int, Part]]


def _bounds(headers: Sequence[Header]) -> Steps[_Bounds]:
    owners: dict[int, tuple[int, Part]] = {}
    for engine, header in enumerate(headers):
        if engine and not engine % ENGINES_A_STEP:
            yield
        for part in Part:
            offset = header[part]
            if offset and not (offset in owners and owners[offset][1] is Part.MODEL):
                owners[offset] = (engine, part)
    return _Bounds(sorted(owners), owners)


def _limits(
    headers: Sequence[Header], engine: int, generation: Generation, size: int, bounds: _Bounds
) -> Segments:
    found: list[Segment | None] = []
    headers_end = header_size(generation, len(headers))
    for part in Part:
        start = headers[engine][part]
        if not start:
            found.append(None)
            continue
        if start < headers_end:
            raise LayoutError(
                f"{where(engine, part, start)}: an offset inside the headers, which end at {headers_end:#x}"
            )
        owner = bounds.owners[start]
        if part is Part.MODEL and owner != (engine, part):
            raise LayoutError(f"{where(engine, part, start)}: engine {owner[0]} has its model there")
        if start > size or (start == size and part is Part.MODEL):
            raise LayoutError(f"{where(engine, part, start)}: the data partition ends at {size:#x}")
        index = bisect_right(bounds.offsets, start)
        end = bounds.offsets[index] if index < len(bounds.offsets) else size
        end = start if owner != (engine, part) else min(end, size)
        if part is Part.MODEL and end - start < LENGTH_BYTES:
            raise LayoutError(
                f"{where(engine, part, start)}: no room for its length, "
                f"the next part or the end is at {end:#x}"
            )
        found.append(Segment(start, end))
    return Segments(*found)
