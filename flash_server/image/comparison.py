"""Comparison of an image with files, and of two images with each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flash_server.files import Progress, ignore
from flash_server.image import Part
from flash_server.image.image_file import EngineFiles, Image, erased_tail
from flash_server.image.nibbles import CHUNK, order_name, swap
from flash_server.image.packager import contents_of


@dataclass(frozen=True, slots=True)
class ImageDifference:
    """One difference; `engine` and `part` are None for the image's own. `offset` is in bytes of the part."""

    what: str
    engine: int | None = None
    part: Part | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = "" if self.engine is None else f"engine {self.engine}: "
        part = "" if self.part is None else f"{self.part.label}: "
        return f"{place}{part}{self.what}"


def verify(
    image: Image, engines: Sequence[EngineFiles], progress: Progress = ignore
) -> list[ImageDifference]:
    """Compare the image with the given files; parts without a file are not compared.

    Padding of FF behind a part other than a model is no difference: its size is not stored. `progress` is
    called with the bytes done and all bytes.
    """
    found = []
    total = sum(_size(files[part]) for files in engines for part in Part)
    done = 0
    for engine, files in enumerate(engines):
        for part, data in contents_of(engine, files).items():
            wanted = memoryview(data)
            if engine >= len(image.map.headers):
                found.append(ImageDifference(f"the image has {len(image.map.headers)} engines", engine, part))
                continue
            stored = image.stored(engine, part)
            if stored is None:
                found.append(ImageDifference("absent in the image", engine, part))
                continue
            same = compare(stored, wanted, swapped=image.map.detected.swapped)
            found += _difference(engine, part, same, stored, wanted, longer_second=False)
            done += len(wanted)
            progress(done, total)
    return found


def diff(a: Image, b: Image) -> list[ImageDifference]:
    """Compare two images: their storage, their engines and parts, and the bytes.

    Places of parts are not compared, and FF behind a part other than a model is taken for padding.
    """
    found = []
    if a.map.detected.generation is not b.map.detected.generation:
        found.append(_pair("generation", a.map.detected.generation.value, b.map.detected.generation.value))
    if a.map.detected.swapped != b.map.detected.swapped:
        one_order, other_order = (order_name(swapped=image.map.detected.swapped) for image in (a, b))
        found.append(_pair("nibbles", one_order, other_order))
    if len(a.map.headers) != len(b.map.headers):
        found.append(_pair("engines", len(a.map.headers), len(b.map.headers)))
    for engine in range(min(len(a.map.headers), len(b.map.headers))):
        for part in Part:
            one, other = a.stored(engine, part), b.stored(engine, part)
            if one is None or other is None:
                if one is not other:
                    found.append(ImageDifference(f"only in {(a if other is None else b).path}", engine, part))
                continue
            same = compare(one, other, swapped=a.map.detected.swapped != b.map.detected.swapped)
            found += _difference(engine, part, same, one, other, longer_second=True)
    return found


def compare(stored: memoryview, other: memoryview, *, swapped: bool) -> int:
    """Count the equal bytes from the start; `swapped` if the two are in different orders."""
    size = min(len(stored), len(other))
    for start in range(0, size, CHUNK):
        one, two = (
            bytes(stored[start : min(start + CHUNK, size)]),
            bytes(other[start : min(start + CHUNK, size)]),
        )
        if swapped:
            one = swap(one)
        if one != two:
            return start + _common(one, two)
    return size


def _common(one: bytes, two: bytes) -> int:
    """Return the length of the common start of two byte strings that differ, found by halving."""
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == two[low:middle] else (low, middle)
    return low


def _difference(
    engine: int, part: Part, same: int, one: memoryview, two: memoryview, *, longer_second: bool
) -> list[ImageDifference]:
    """Return the difference of two parts of which `same` bytes agree; none if one only has padding left.

    Padding may be behind `one`, and behind `two` only with `longer_second`.
    """
    rest_one, rest_two = len(one) - same, len(two) - same
    if not rest_one and not rest_two:
        return []
    if part is not Part.MODEL:
        if not rest_two and erased_tail(one) >= rest_one:
            return []
        if longer_second and not rest_one and erased_tail(two) >= rest_two:
            return []
    sizes = f"; {len(one)} and {len(two)} bytes" if rest_one != rest_two else ""
    return [ImageDifference(f"differs from byte {same:#x}{sizes}", engine, part, same)]


def _pair(name: str, one: object, other: object) -> ImageDifference:
    return ImageDifference(f"{name}: {one} and {other}")


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.exists() else 0
