"""An image in a file, and the files of an engine from which one is made."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flash_server.errors import LayoutError, NoImageError
from flash_server.files import InputError, map_file
from flash_server.image import ImageMap, Part, map_image
from flash_server.image.detect import ERASED
from flash_server.image.headers import ByPart
from flash_server.image.nibbles import CHUNK, chunks

_ERASED: Final = b"\xff" * CHUNK


class EngineFiles(ByPart[Path]):
    """The files of one engine."""

    __slots__ = ()


def read_part(engine: int, part: Part, path: Path) -> memoryview:
    """Map the file of a part. Raises InputError, which names the engine and the part."""
    try:
        return map_file(path)
    except InputError as error:
        raise InputError(f"engine {engine}: {part.label}: {error}") from error


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a file, with its map."""

    path: Path
    data: memoryview
    map: ImageMap

    @classmethod
    def open(cls, path: Path, engines: int | None = None, swapped: bool | None = None) -> "Image":
        """Map a file, detecting `engines` and `swapped` unless given. Raises InputError, LayoutError."""
        return cls.of(path, map_file(path), engines, swapped)

    @classmethod
    def of(
        cls, path: Path, data: memoryview, engines: int | None = None, swapped: bool | None = None
    ) -> "Image":
        """Read the image in bytes of a file, as `open` does. Raises LayoutError."""
        try:
            found = map_image(
                lambda start, size: bytes(data[start : start + size]), len(data), engines, swapped=swapped
            )
        except LayoutError as error:
            if isinstance(error, NoImageError) and len(data) and is_erased(data):
                raise NoImageError(f"{path}: {ERASED}") from error
            raise type(error)(f"{path}: {error}") from error
        return cls(path, data, found)

    def stored(self, engine: int, part: Part) -> memoryview | None:
        """Return a part's bytes as the file has them; None = absent."""
        segment = self.map.parts[engine][part]
        return None if segment is None else self.data[segment.start : segment.end]

    def normal(self, engine: int, part: Part, size: int | None = None) -> Iterator[bytes]:
        """Yield a part's bytes in normal order, piece by piece; only the first `size` if given."""
        return chunks((self.stored(engine, part) or b"")[:size], swapped=self.map.detected.swapped)

    def used(self, engine: int, part: Part) -> int:
        """Return a part's size without the FF at its end, which may be padding; a model's size is known."""
        stored = self.stored(engine, part) or memoryview(b"")
        return len(stored) if part is Part.MODEL else len(stored) - erased_tail(stored)


def is_erased(data: memoryview) -> bool:
    """Return whether all bytes are FF."""
    return erased_tail(data) == len(data)


def erased_tail(data: memoryview) -> int:
    """Count the bytes of FF at the end."""
    for end in range(len(data), 0, -CHUNK):
        piece = bytes(data[max(end - CHUNK, 0) : end])
        # Comparing is several times as fast as stripping.
        left = 0 if piece == _ERASED[: len(piece)] else len(piece.rstrip(b"\xff"))
        if left:
            return len(data) - (end - len(piece) + left)
    return len(data)
