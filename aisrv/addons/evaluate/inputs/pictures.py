"""Pictures as the pixels of a tensor: decoded, upright, over a background, cut, fitted, filtered."""

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.errors import ExtraError, InputError
from aisrv.addons.evaluate.inputs.settings import InputSettings, crop_shares
from aisrv.values.extras import import_failure
from aisrv.values.untrusted_picture import opened_picture

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Pixels = npt.NDArray[Any]
"""[height, width, channels], uint8, or float64 where a filter does not round."""

_MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}
_BAND: Final = 256
"""Rows."""
_DRAFT_SCALE: Final = 2
"""How much larger than the tensor a JPEG stays that is scaled as it is decoded."""


def check_pillow() -> None:
    """Raise ExtraError where Pillow is not installed."""
    try:
        import PIL.Image  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ExtraError(import_failure("reading pictures needs Pillow", error, "images")) from None


def decoded(data: bytes, settings: InputSettings, shape: tuple[int, int, int]) -> Pixels:
    """Return the pixels of a picture's file in the shape of a tensor; InputError for what is none.

    `data` are the file's bytes, `shape` is height, width and channels.
    """
    from PIL import ImageOps

    with opened_picture(io.BytesIO(data), InputError) as image:
        if settings.draft:
            mode = "L" if shape[2] == 1 else "RGB"
            image.draft(mode, (_DRAFT_SCALE * shape[1], _DRAFT_SCALE * shape[0]))
        if settings.exif:
            ImageOps.exif_transpose(image, in_place=True)
        return fitted(image, settings, shape)


def fitted(image: "PillowImage", settings: InputSettings, shape: tuple[int, int, int]) -> Pixels:
    """Return the pixels of an upright image in the `shape` of a tensor; InputError.

    The shape is height, width and channels.
    """
    if image.mode.startswith(("I", "F")):
        raise InputError(f"pixels of mode {image.mode}; save the picture with 8 bits a channel")
    height, width, channels = shape
    colored = _cropped(_colored(image, settings, channels), settings)
    pixels = _resized(colored, settings, height, width)
    pixels = pixels.reshape(height, width, -1)
    if settings.color == "gray" and channels == 3:
        pixels = np.repeat(pixels[:, :, :1], 3, axis=2)
    elif settings.color == "bgr" and channels >= 3:
        pixels = np.concatenate((pixels[:, :, 2::-1], pixels[:, :, 3:]), axis=2)
    return 255 - pixels if settings.invert else pixels


def _colored(image: "PillowImage", settings: InputSettings, channels: int) -> "PillowImage":
    """Convert to the tensor's colors; what is transparent shows the background, unless alpha is a channel."""
    if channels == 4:
        return _in_mode(image, "RGBA")
    if image.has_transparency_data:
        levels = [round(each) for each in settings.background]
        color = tuple(levels * 3 if len(levels) == 1 else levels)
        if len(color) != 3 or not all(0 <= each <= 255 for each in color):
            raise InputError("background is one level or three, 0 to 255")
        image = _over(image, color)
    return _in_mode(image, "L" if settings.color == "gray" else _MODES[channels])


def _in_mode(image: "PillowImage", mode: str) -> "PillowImage":
    """Convert an image, without a copy where it is in that mode."""
    return image if image.mode == mode else image.convert(mode)


def _over(image: "PillowImage", color: tuple[int, ...]) -> "PillowImage":
    """Return a transparent image over a color, a few rows at a time: a copy takes four bytes a pixel."""
    from PIL import Image

    whole = Image.new("RGB", image.size)
    for top in range(0, image.height, _BAND):
        band = image.crop((0, top, image.width, min(top + _BAND, image.height))).convert("RGBA")
        behind = Image.new("RGBA", band.size, (*color, 255))
        whole.paste(Image.alpha_composite(behind, band).convert("RGB"), (0, top))
    return whole


def _cropped(image: "PillowImage", settings: InputSettings) -> "PillowImage":
    shares = crop_shares(settings.crop)
    if shares is None:
        return image
    width, height = image.size
    if isinstance(shares, tuple):
        left, top, right, bottom = (
            round(share * side) for share, side in zip(shares, (width, height, width, height), strict=True)
        )
        return image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))
    side = min(width, height)
    wide, high = (round(shares * width), round(shares * height)) if shares else (side, side)
    return _center(image, max(wide, 1), max(high, 1))


def _center(image: "PillowImage", width: int, height: int) -> "PillowImage":
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _resized(image: "PillowImage", settings: InputSettings, height: int, width: int) -> Pixels:
    """Fit an image into height and width."""
    if settings.fit == "cover":
        scale = min(image.width / width, image.height / height)
        image = _center(image, max(round(width * scale), 1), max(round(height * scale), 1))
    if settings.fit != "contain":
        return _sampled(image, settings, height, width)
    scale = max(image.width / width, image.height / height)
    wide, high = (max(round(side / scale), 1) for side in image.size)
    inner = _sampled(image, settings, high, wide).reshape(high, wide, -1)
    whole = np.full((height, width, inner.shape[2]), settings.pad, inner.dtype)
    left, top = (width - wide) // 2, (height - high) // 2
    whole[top : top + high, left : left + wide] = inner
    return whole


def _sampled(image: "PillowImage", settings: InputSettings, height: int, width: int) -> Pixels:
    from PIL import Image

    if not settings.antialias:
        pixels = np.asarray(image, np.uint8)
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        return (
            bilinear(pixels, height, width)
            if settings.filter == "bilinear"
            else nearest(pixels, height, width)
        )
    return np.asarray(image.resize((width, height), Image.Resampling[settings.filter.upper()]), np.uint8)


def bilinear(pixels: Pixels, height: int, width: int) -> npt.NDArray[np.float64]:
    """Resize to a height and width by 2 x 2 neighbors at half-pixel centers, unrounded; edges repeat.

    OpenCV's INTER_LINEAR on floats has places of single precision, and its two implementations, with IPP and
    without, have other ones: at 700 pixels they are up to 0.01 of 255 apart. These are exact.
    """
    low, high, share = _neighbors(pixels.shape[0], height)
    rows = pixels[low] * (1 - share)[:, None, None] + pixels[high] * share[:, None, None]
    low, high, share = _neighbors(pixels.shape[1], width)
    found: npt.NDArray[np.float64] = rows[:, low] * (1 - share)[:, None] + rows[:, high] * share[:, None]
    return found


def _neighbors(
    size: int, wanted: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    places: npt.NDArray[np.float64] = np.clip((np.arange(wanted) + 0.5) * (size / wanted) - 0.5, 0, size - 1)
    low = places.astype(np.intp)
    return low, np.minimum(low + 1, size - 1).astype(np.intp), places - low


def nearest(pixels: Pixels, height: int, width: int) -> Pixels:
    """Resize to a height and width by the pixel whose area holds each center."""
    rows, columns = (
        ((np.arange(wanted) + 0.5) * (size / wanted)).astype(np.intp)
        for size, wanted in zip(pixels.shape[:2], (height, width), strict=True)
    )
    found: Pixels = pixels[rows][:, columns]
    return found
