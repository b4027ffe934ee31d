"""Pictures that nobody vouches for: of a few formats, within a number of pixels. Needs Pillow.

Pillow opens 43 formats, some by programs of others; only those that are named are tried here. What it raises
for damaged files is any exception, which becomes the caller's kind of error.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

from aisrv.values.parser_errors import parser_errors

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS: Final[Mapping[str, str]] = {
    ".bmp": "BMP",
    ".gif": "GIF",
    ".jpeg": "JPEG",
    ".jpg": "JPEG",
    ".pgm": "PPM",
    ".png": "PNG",
    ".ppm": "PPM",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
"""Formats that are read, by the ending of a file's name."""

LARGEST_PIXELS: Final = 6000 * 4000
"""Of a picture: each copy takes four bytes a pixel, and two of them are held while it is converted."""
_SHARE: Final = {"WEBP": 2}
"""What part of that formats have whose decoders take more: WebP's four copies of its own."""


@contextmanager
def opened_picture(
    file: BinaryIO,
    kind: type[Exception],
    formats: Mapping[str, str] = FORMATS,
    largest_pixels: int = LARGEST_PIXELS,
) -> Iterator["Image"]:
    """Open a picture, whose pixels are decoded when they are used; the block is to do no more than that.

    Raises `kind` for a file that is none, and whatever its decoder raises; ImportError where Pillow is not
    installed.
    """
    from PIL import Image, UnidentifiedImageError

    names = sorted(set(formats.values()))
    with parser_errors("not a picture that can be read", kind), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged metadata, and of sizes, whose bound is below
        try:
            image = Image.open(file, formats=names)
        except UnidentifiedImageError:
            raise ValueError(f"none of {', '.join(names)}") from None
        with image:
            most = largest_pixels // _SHARE.get(str(image.format), 1)
            if image.width * image.height > most:
                size = f"{image.width}x{image.height}"
                raise kind(f"{size} pixels, at most {most} are read: scale it down")
            yield image
