"""How many bytes a frame has, by its size and encoding."""

from typing import Final

from aisrv.sensors.image.frame import Encoding, RawFrame

LARGEST_SIDE: Final = 0xFFFF
"""Pixels: a region names its ends in 16 bits."""
BAYER_SIDE: Final = 2
"""A smaller mosaic lacks a color."""

_BYTES_A_PIXEL: Final = {Encoding.BAYER_RGGB: 1, Encoding.YUV422: 2, Encoding.RGB: 3, Encoding.SAMPLES: 1}


class FrameError(ValueError):
    """A frame whose size does not go with its encoding, or that is not a picture."""


def frame_size(width: int, height: int, encoding: Encoding) -> int:
    """Bytes of a frame; for samples, `width` is the bytes of a row.

    Raises FrameError for a size that the encoding cannot have.
    """
    if not (1 <= width <= LARGEST_SIDE and 1 <= height <= LARGEST_SIDE):
        raise FrameError(f"a frame of {width}x{height}: sides are 1 to {LARGEST_SIDE} pixels")
    if encoding is Encoding.BAYER_RGGB and min(width, height) < BAYER_SIDE:
        raise FrameError(f"a Bayer frame of {width}x{height}: it has all colors from 2x2 on")
    if encoding is Encoding.YUV422 and width % 2:
        raise FrameError(f"a YUV 4:2:2 frame {width} pixels wide: pixels come in pairs, the width is even")
    return width * height * _BYTES_A_PIXEL[encoding]


def check_frame(frame: RawFrame) -> None:
    """Raise FrameError where a frame's bytes are not as many as its size and encoding say."""
    size = frame_size(frame.width, frame.height, frame.encoding)
    if len(frame.data) != size:
        raise FrameError(
            f"a {frame.encoding.value} frame of {frame.width}x{frame.height} has {size} bytes,"
            f" not {len(frame.data)}"
        )
