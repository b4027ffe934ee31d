"""Frames of a sensor as pictures, for people to look at: red, green and blue for each pixel.

It is a preview: the colors of a Bayer pixel are those of the square of four that it is in, and the pairs of a
YUV frame share their color differences. What a network gets is made by the device.
"""

from typing import TYPE_CHECKING, Final

from aisrv.protocol.sensor_format import PixelEncoding, SensorFormat
from host_tools.errors import TensorError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Picture = npt.NDArray[np.uint8]
    """Height, width and three channels."""

BYTES_A_PIXEL: Final = {PixelEncoding.BAYER: 1, PixelEncoding.YUV: 2, PixelEncoding.RGB: 3}


def picture_of(data: bytes, form: SensorFormat) -> "Picture":
    """Return the picture of a frame; TensorError where its bytes are none of that format."""
    import numpy as np

    size = BYTES_A_PIXEL.get(PixelEncoding(form.encoding)) if form.encoding < len(PixelEncoding) else None
    if size is None:
        raise TensorError("the sensor gives samples, not pictures: save them as raw bytes")
    width, height = form.width, form.height
    if len(data) != width * height * size:
        raise TensorError(f"a frame of {width} x {height} has {width * height * size} bytes, not {len(data)}")
    odd = [
        each
        for each, step in ((width, 1 if size == 3 else 2), (height, 2 if size == 1 else 1))
        if each % step
    ]
    if odd:
        raise TensorError(f"a frame of {width} x {height} has no whole squares or pairs of pixels")
    pixels = np.frombuffer(data, np.uint8).reshape(height, width, size)
    return _MAKERS[PixelEncoding(form.encoding)](pixels)


def _of_rgb(pixels: "Picture") -> "Picture":
    return pixels


def _of_bayer(pixels: "Picture") -> "Picture":
    import numpy as np

    frame = pixels[:, :, 0].astype(np.uint16)
    red, blue = frame[0::2, 0::2], frame[1::2, 1::2]
    green = (frame[0::2, 1::2] + frame[1::2, 0::2] + 1) // 2
    squares = np.stack([red, green, blue], axis=-1).astype(np.uint8)
    picture: Picture = squares.repeat(2, axis=0).repeat(2, axis=1)
    return picture


def _of_yuv(pixels: "Picture") -> "Picture":
    """Source: Recommendation ITU-T T.871, section 7."""
    import numpy as np

    luma = pixels[:, :, 0].astype(np.float64)
    u, v = (pixels[:, first::2, 1].astype(np.float64).repeat(2, axis=1) - 128 for first in (0, 1))
    channels = (luma + 1.402 * v, luma - 0.344136 * u - 0.714136 * v, luma + 1.772 * u)
    picture: Picture = np.clip(np.rint(np.stack(channels, axis=-1)), 0, 255).astype(np.uint8)
    return picture


_MAKERS: Final = {PixelEncoding.BAYER: _of_bayer, PixelEncoding.YUV: _of_yuv, PixelEncoding.RGB: _of_rgb}
