"""Pictures as frames: scaled to a size, and encoded as by a sensor."""

from collections.abc import Callable
from typing import Final

import numpy as np

from aisrv.protocol.commands import FrameRegion
from aisrv.sensors.image.demosaic import mosaic
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.sensors.image.image_path import ImagePath
from aisrv.sensors.image.resample import Bytes
from aisrv.sensors.image.yuv import pack_yuv422

_ENCODERS: Final[dict[Encoding, Callable[[Bytes], Bytes]]] = {
    Encoding.BAYER_RGGB: mosaic,
    Encoding.YUV422: pack_yuv422,
    Encoding.RGB: np.asarray,
}

Size = tuple[int, int]
"""Width and height in pixels."""


def encode(picture: Bytes, encoding: Encoding) -> bytes:
    """Encode a picture (height, width, 3), whose size goes with the encoding."""
    return _ENCODERS[encoding](picture).tobytes()


class Scaler:
    """Scales pictures to one size, without keeping their proportions."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._path = ImagePath()

    def __call__(self, picture: Bytes) -> Bytes:
        """Scale a picture (height, width, 3)."""
        height, width = picture.shape[:2]
        if (width, height) == self._size:
            return picture
        frame = RawFrame(width, height, Encoding.RGB, picture.tobytes())
        return self._path.to_pixels(frame, FrameRegion(0, width, 0, height, *self._size))
