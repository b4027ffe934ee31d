"""Pictures from files: one, repeated, or a folder of them in the order of their names. Needs Pillow.

Files are read when their frame is asked for, at once: a picture of LARGEST_PIXELS takes some tenths of a
second.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.sensors.image.frame import Encoding, SourceError
from aisrv.sensors.sources.files import open_file
from aisrv.sensors.sources.numbered import NumberedSource
from aisrv.values.extras import import_failure
from aisrv.values.printable import printable
from aisrv.values.untrusted_picture import FORMATS as PICTURES
from aisrv.values.untrusted_picture import opened_picture

if TYPE_CHECKING:
    from aisrv.sensors.image.resample import Bytes
    from aisrv.sensors.sources.pictures import Size

FORMATS: Final = {
    suffix: name for suffix, name in PICTURES.items() if name in ("BMP", "GIF", "JPEG", "PNG", "PPM")
}
"""Formats by file extension, by which a folder selects its files."""
LARGEST_FILE: Final = 64 << 20
LARGEST_PIXELS: Final = 4096 * 4096
LARGEST_FOLDER: Final = 100_000
"""Limit of a folder's names."""


class _PictureError(Exception):
    """What is wrong with a picture."""


def read_picture(path: Path) -> "Bytes":
    """Read the first picture of a file as RGB (height, width, 3); transparency is dropped.

    Raises SourceError for a file that is no picture, is damaged, or is larger than LARGEST_FILE bytes or
    LARGEST_PIXELS.
    """
    import numpy as np

    name = printable(str(path))
    try:
        with (
            open_file(path, LARGEST_FILE) as file,
            opened_picture(file, _PictureError, FORMATS, LARGEST_PIXELS) as image,
        ):
            return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except ImportError as error:
        raise SourceError(f"{name}: {import_failure('pictures need Pillow', error, 'images')}") from None
    except _PictureError as error:
        raise SourceError(f"{name}: {error}") from None


def _named(path: Path, size: "Size | None") -> "tuple[Bytes, Size]":
    picture = read_picture(path)
    return picture, size or (picture.shape[1], picture.shape[0])


class ImageSource(NumberedSource):
    """One picture, repeated without end; scaled if a size is given. Read once, at the start."""

    def __init__(
        self, path: Path, size: "Size | None" = None, encoding: Encoding = Encoding.BAYER_RGGB
    ) -> None:
        from aisrv.sensors.sources.pictures import Scaler, encode

        picture, size = _named(path, size)
        super().__init__(str(path), *size, encoding, None)
        self._still = encode(Scaler(size)(picture), encoding)

    def _data(self, number: int) -> bytes:  # noqa: ARG002 - every frame is the same
        return self._still


class FolderSource(NumberedSource):
    """The pictures of a folder by name, once or in a loop, scaled to `size` or that of the first."""

    def __init__(
        self,
        path: Path,
        size: "Size | None" = None,
        encoding: Encoding = Encoding.BAYER_RGGB,
        loop: bool = False,
    ) -> None:
        from aisrv.sensors.sources.pictures import Scaler

        self._paths = _pictures_in(path)
        _, size = _named(self._paths[0], size)
        super().__init__(f"folder {path}", *size, encoding, len(self._paths), loop)
        self._scaler = Scaler(size)

    def _data(self, number: int) -> bytes:
        from aisrv.sensors.sources.pictures import encode

        return encode(self._scaler(read_picture(self._paths[number])), self._encoding)


def _pictures_in(folder: Path) -> list[Path]:
    try:
        paths = []
        for number, path in enumerate(folder.iterdir()):
            if number >= LARGEST_FOLDER:
                raise SourceError(f"folder {folder}: more than the {LARGEST_FOLDER} files allowed")
            if path.suffix.lower() in FORMATS and not path.name.startswith("."):
                paths.append(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise SourceError(f"folder {folder}: {error}") from None
    if not paths:
        raise SourceError(f"folder {folder}: no pictures in it (files ending in {', '.join(FORMATS)})")
    return sorted(paths, key=lambda path: path.name)
