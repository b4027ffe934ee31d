"""Examples as the model sees them: the pixels of a row, as PNG and as characters of a terminal."""

import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.inputs.settings import InputSettings
from host_tools.errors import TensorError
from host_tools.tensors.images import image_shape
from host_tools.tensors.tensor_spec import TensorSpec

Picture = npt.NDArray[np.uint8]
"""[height, width, channels] of 1, 3 or 4 channels."""

TERMINAL_COLUMNS: Final = 96
"""Of a picture in the terminal at most; larger ones are thinned."""

_PNG_COLORS: Final = {1: 0, 3: 2, 4: 6}


def picture_of(row: bytes, spec: TensorSpec, settings: InputSettings) -> Picture | None:
    """Return the pixels of a row's first input, of which `spec` and `settings` are; None for no picture.

    Bytes are pixels from the type's least value on; other numbers are stretched from the least to the most.
    """
    shape = spec.shape[1:] if len(spec.shape) == 4 else spec.shape
    try:
        if settings.layout == "nchw" and len(shape) == 3:
            height, width, channels = image_shape(TensorSpec((*shape[1:], shape[0]), spec.dtype))
            planes = spec.elements(row[: spec.nbytes]).reshape(channels, height, width).transpose(1, 2, 0)
        else:
            height, width, channels = image_shape(spec)
            planes = spec.elements(row[: spec.nbytes]).reshape(height, width, channels)
    except TensorError:
        return None
    pixels = _levels(planes)
    return pixels[:, :, 2::-1] if settings.color == "bgr" and channels == 3 else pixels


def _levels(elements: npt.NDArray[Any]) -> Picture:
    if elements.dtype.itemsize == 1:
        return (elements.astype(np.int16) - np.iinfo(elements.dtype).min).astype(np.uint8)
    real = np.nan_to_num(elements.astype(np.float64))
    low, high = real.min(), real.max()
    return np.asarray((real - low) * (255 / (high - low or 1)), np.uint8)


def png(pixels: Picture) -> bytes:
    """Return a picture as a PNG file."""
    height, width, channels = pixels.shape
    lines = np.zeros((height, width * channels + 1), np.uint8)  # each begins with the filter none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">2I5B", width, height, 8, _PNG_COLORS[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def half_blocks(pixels: Picture) -> str:
    """Return a picture as lines of a terminal with 24-bit colors, two rows of pixels in each."""
    step = -(-pixels.shape[1] // TERMINAL_COLUMNS)
    thinned = pixels[::step, ::step, : 3 if pixels.shape[2] >= 3 else 1]
    colors = np.repeat(thinned, 3, axis=2) if thinned.shape[2] == 1 else thinned
    if len(colors) % 2:
        colors = np.concatenate((colors, np.zeros_like(colors[:1])))
    lines = []
    for upper, lower in zip(colors[::2], colors[1::2], strict=True):
        cells = [
            f"\x1b[38;2;{a};{b};{c}m\x1b[48;2;{d};{e};{f}m\N{UPPER HALF BLOCK}"
            for (a, b, c), (d, e, f) in zip(upper.tolist(), lower.tolist(), strict=True)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)
