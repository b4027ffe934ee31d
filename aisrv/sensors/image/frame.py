"""Raw frames, their encodings and sizes, and the interface of the sources that deliver them."""

import enum
from typing import Final, Protocol

from msgspec import Struct

from aisrv.values.printable import PrintableError

LARGEST_SIDE: Final = 0xFFFF
"""Largest width and height in pixels: a region names its ends in 16 bits."""
BAYER_SIDE: Final = 2
"""Smallest mosaic that has every color."""


class Encoding(enum.Enum):
    """The encoding of a frame's pixels, row by row from the top left."""

    BAYER_RGGB = "bayer"
    """One byte a pixel: red and green in even rows, green and blue in odd ones."""
    YUV422 = "yuv"
    """Two bytes a pixel: Y0 U Y1 V for each pair of pixels (BT.601, full range)."""
    RGB = "rgb"
    """Three bytes a pixel."""
    SAMPLES = "samples"
    """Bytes that are the input tensor as they are."""


_BYTES_A_PIXEL: Final = {Encoding.BAYER_RGGB: 1, Encoding.YUV422: 2, Encoding.RGB: 3, Encoding.SAMPLES: 1}


class RawFrame(Struct, frozen=True):
    """One frame."""

    width: int
    """Pixels of a row; for samples, bytes."""
    height: int
    """Rows."""
    encoding: Encoding
    data: bytes


class FrameSource(Protocol):
    """Delivers frames, each when it is asked for; all of one size and encoding."""

    @property
    def width(self) -> int:
        """Pixels of a row."""

    @property
    def height(self) -> int:
        """Rows."""

    @property
    def encoding(self) -> Encoding:
        """Encoding of all frames."""

    async def frame(self) -> RawFrame:
        """Take the next frame, as soon as the source has one. Raises SourceError."""


class SourceError(PrintableError):
    """A source that cannot deliver a frame; the message says why, and what to do."""


class FrameError(ValueError):
    """A frame whose size does not go with its encoding, or that is not a picture."""


def frame_size(width: int, height: int, encoding: Encoding) -> int:
    """Return the bytes of a frame of that size in pixels (samples: `width` in bytes). Raises FrameError."""
    if not (1 <= width <= LARGEST_SIDE and 1 <= height <= LARGEST_SIDE):
        raise FrameError(f"a frame of {width}x{height}: sides are 1 to {LARGEST_SIDE} pixels")
    if encoding is Encoding.BAYER_RGGB and min(width, height) < BAYER_SIDE:
        raise FrameError(f"a Bayer frame of {width}x{height}: it has all colors from 2x2 on")
    if encoding is Encoding.YUV422 and width % 2:
        raise FrameError(f"a YUV 4:2:2 frame {width} pixels wide: pixels come in pairs, the width is even")
    return width * height * _BYTES_A_PIXEL[encoding]


def check_frame(frame: RawFrame) -> None:
    """Raise FrameError unless `frame` has the number of bytes of its size and encoding."""
    size = frame_size(frame.width, frame.height, frame.encoding)
    if len(frame.data) != size:
        raise FrameError(
            f"a {frame.encoding.value} frame of {frame.width}x{frame.height} has {size} bytes,"
            f" not {len(frame.data)}"
        )
