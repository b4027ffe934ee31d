"""A model replaced in a stored image, as the change of its sectors; no I/O.

The new model goes to free sectors, and nothing of another engine is moved, but for parts that lie where new
headers must go. Then the headers change, and the bytes of the old model become FF, so that the part before
it does not grow by them. `flash_server.image.journal` says how such a change is made at once.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from flash_server.errors import LayoutError, NoImageError
from flash_server.image.detect import detect
from flash_server.image.generations import Generation, ImageFormat
from flash_server.image.headers import (
    LENGTH_BYTES,
    PREFIX_BYTES,
    Header,
    Part,
    Segment,
    Segments,
    all_segment_limits,
    header_size,
    judge_segments_in_steps,
    parse_headers,
)
from flash_server.image.image_file import erased_tail
from flash_server.image.journal import Claim, JournalRecord, PartitionChange
from flash_server.image.steps import finish

_MODEL: Final = Part.MODEL


class NoRoomError(LayoutError):
    """No free stretch of the partition is as long as a part."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A change of an image; offsets are in the data partition."""

    written: tuple[tuple[int, bytes], ...]
    """Start of free sectors, and what is stored from there on; the new model is the last."""
    change: PartitionChange
    claim: Claim
    record: JournalRecord
    contents: bytes
    """The changed image."""
    is_empty: bool
    """Whether nothing is left: there is no image then."""


@dataclass
class _Image:
    """The image that is there: headers, and what lies where."""

    stored: memoryview
    detected: ImageFormat
    headers: list[Header]
    kept: list[Segment] = field(default_factory=list)
    """What is not FF of the parts that stay."""
    old_model: Segment | None = None

    @classmethod
    def read(cls, stored: memoryview, engines: int, engine: int) -> Self:
        """Read an image, or begin one for so many engines. Raises LayoutError."""
        prefix = bytes(stored[:PREFIX_BYTES])
        try:
            detected = detect(prefix, len(stored), lambda start, size: bytes(stored[start : start + size]))
        except NoImageError:
            return cls(stored, ImageFormat(Generation.FAST, swapped=True), [Header()] * engines)
        try:
            headers = parse_headers(prefix, detected)
        except LayoutError:  # nothing tells how many there are, as where there is no part
            headers = parse_headers(prefix, detected, engines)
        found = cls(stored, detected, list(headers))
        segments = found._judge(engine)
        for number, limits in enumerate(segments):
            for part in Part:
                segment = limits[part]
                if segment is not None and (number, part) == (engine, _MODEL):
                    found.old_model = segment
                elif segment is not None and segment.size:
                    found.kept.append(found.used(part, segment))
        return found

    def _judge(self, engine: int) -> list[Segments]:
        """Return the limits of all parts; a model that is to be replaced may be at an impossible place."""
        judged = list(self._limits(self.headers))
        if engine < len(judged) and isinstance(judged[engine], LayoutError):
            self.headers[engine] = _with_model(self.headers[engine], 0)
            judged = list(self._limits(self.headers))
        sound = []
        for limits in judged:
            if isinstance(limits, LayoutError):
                raise limits
            sound.append(limits)
        return sound

    def _limits(self, headers: Sequence[Header]) -> Iterable[Segments | LayoutError]:
        return finish(judge_segments_in_steps(headers, self.detected.generation, len(self.stored)))

    def used(self, part: Part, segment: Segment) -> Segment:
        """Return the bytes of a part without what is free behind it."""
        if part is _MODEL:
            word = self.detected.normal(self.stored[segment.start : segment.start + LENGTH_BYTES])
            end = segment.start + LENGTH_BYTES + int.from_bytes(word, "little")
            if end <= segment.end:
                return Segment(segment.start, end)
        return Segment(segment.start, segment.end - erased_tail(self.stored[segment.start : segment.end]))


def replace_model(
    stored: bytes | memoryview, engine: int, engines: int, model: bytes, sector: int
) -> Replacement:
    """Replace the model of an engine in the `stored` image, or delete it if `model` is empty.

    An image is begun for `engines` where there is none. `stored` is all that images may take, whole sectors
    of `sector` bytes. Raises LayoutError for an image whose other engines are broken, NoRoomError.
    """
    image = _Image.read(memoryview(stored), engines, engine)
    headers = image.headers + [Header()] * (engine + 1 - len(image.headers))
    headers_end = header_size(image.detected.generation, len(headers))
    if headers_end > sector:
        raise LayoutError(f"the headers of {len(headers)} engines end at {headers_end:#x}, past one sector")
    in_the_way = [segment for segment in image.kept if segment.start < headers_end]
    occupied = [Segment(0, sector), *image.kept]
    if image.old_model is not None:
        occupied.append(image.used(_MODEL, image.old_model))
    holes = _Holes(occupied, len(image.stored), sector)
    written: list[tuple[int, bytes]] = []
    moves: dict[int, int] = {}
    for segment in in_the_way:
        moves[segment.start] = holes.take(segment.size)
        written.append((moves[segment.start], bytes(image.stored[segment.start : segment.end])))
    new_model = 0
    if model:
        new_model = holes.take(LENGTH_BYTES + len(model))
        length = len(model).to_bytes(LENGTH_BYTES, "little")
        written.append((new_model, image.detected.normal(length + model)))
    old_start = None if image.old_model is None else image.old_model.start
    headers[engine] = _with_model(headers[engine], new_model)
    if old_start is not None:
        # Empty parts lie where the model begins, and go on to be empty where it is now.
        moves[old_start] = new_model or _next_offset(headers, old_start)
    for number, header in enumerate(headers):
        offsets = (moves.get(header[part], header[part]) for part in Part)
        headers[number] = Header(*(0 if offset < headers_end else offset for offset in offsets))
    vacated = [start for start in (old_start, *(each.start for each in in_the_way)) if start is not None]
    return _change(image, headers, written, vacated, sector)


def _change(
    image: _Image,
    headers: Sequence[Header],
    written: Sequence[tuple[int, bytes]],
    vacated: Sequence[int],
    sector: int,
) -> Replacement:
    new = bytearray(image.stored)
    start = image.detected.generation.preamble + b"".join(map(bytes, headers))
    if not image.kept and image.old_model is None:
        new[:sector] = b"\xff" * sector  # what is there, if anything, is no image's
    for place in vacated:
        end = _next_offset(headers, place) or len(new)
        new[place:end] = b"\xff" * (end - place)
    new[: len(start)] = image.detected.normal(start)
    is_empty = not any(header[part] for header in headers for part in Part)
    if is_empty:
        new[:sector] = b"\xff" * sector
    changed = {0: bytes(new[:sector])}
    erased: list[int] = []
    for at in _sectors(vacated, headers, len(new), sector):
        content = bytes(new[at : at + sector])
        if content != image.stored[at : at + sector]:
            if content.strip(b"\xff"):
                changed[at] = content
            else:
                erased.append(at)
    end = sector
    for place, data in written:
        stop = _round_up(place + len(data), sector)
        new[place:stop] = data.ljust(stop - place, b"\xff")
    for used in (*image.kept, *(Segment(place, place + len(data)) for place, data in written)):
        end = max(end, _round_up(used.end, sector))
    change = PartitionChange(
        tuple(sorted(changed.items())), range(erased[0], erased[-1] + sector) if erased else range(0)
    )
    record = JournalRecord.of(change, end, zlib.crc32(memoryview(new)[:end]))
    if not is_empty:
        _check(new, image.detected, headers)
    ranges = tuple(range(place, _round_up(place + len(data), sector)) for place, data in written)
    claim = Claim.of(image.stored, ranges)
    return Replacement(tuple(written), change, claim, record, bytes(new), is_empty)


def _check(new: bytearray, detected: ImageFormat, headers: Sequence[Header]) -> None:
    """Raise LayoutError unless a reader would find what was meant: a design image can be ambiguous."""
    prefix = bytes(new[:PREFIX_BYTES])
    found = detect(prefix, len(new), lambda start, size: bytes(new[start : start + size]))
    if found != detected or parse_headers(prefix, detected)[: len(headers)] != tuple(headers):
        raise LayoutError("the image would be ambiguous: write one of generation 1.2 or fast")
    all_segment_limits(headers, detected.generation, len(new))


class _Holes:
    """Free sectors between what is occupied."""

    def __init__(self, occupied: Iterable[Segment], size: int, sector: int) -> None:
        self._sector = sector
        self._free: list[Segment] = []
        at = 0
        for segment in sorted(occupied, key=lambda each: each.start):
            stop = segment.start // sector * sector
            if stop > at:
                self._free.append(Segment(at, stop))
            at = max(at, _round_up(segment.end, sector))
        if at < size:
            self._free.append(Segment(at, size))

    def take(self, size: int) -> int:
        """Return the start of the first free stretch of that many bytes. Raises NoRoomError."""
        for number, hole in enumerate(self._free):
            if size <= hole.size:
                self._free[number] = Segment(hole.start + _round_up(size, self._sector), hole.end)
                return hole.start
        largest = max((hole.size for hole in self._free), default=0)
        raise NoRoomError(f"no room for {size} bytes: the longest free stretch has {largest}")


def _with_model(header: Header, offset: int) -> Header:
    return Header(offset, header.parameters, header.operators, header.xip)


def _next_offset(headers: Iterable[Header], start: int) -> int:
    """Return the smallest offset of a part behind `start`, or 0."""
    return min((header[part] for header in headers for part in Part if header[part] > start), default=0)


def _sectors(vacated: Iterable[int], headers: Sequence[Header], size: int, sector: int) -> Iterator[int]:
    """Yield the starts of the sectors that vacated bytes lie in, but for sector 0."""
    for place in vacated:
        end = _next_offset(headers, place) or size
        yield from range(max(place // sector * sector, sector), end, sector)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
