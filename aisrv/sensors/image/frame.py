"""Raw frames, their encodings, and the interface of the sources that deliver them."""

import enum
from typing import Protocol

from msgspec import Struct


class Encoding(enum.Enum):
    """The encoding of a frame's pixels, row by row from the top left."""

    BAYER_RGGB = "bayer"
    """One byte a pixel: red and green in even rows, green and blue in odd ones."""
    YUV422 = "yuv"
    """Two bytes a pixel: Y0 U Y1 V for each pair of pixels (BT.601, full range)."""
    RGB = "rgb"
    """Three bytes a pixel."""
    SAMPLES = "samples"
    """No picture: bytes that are the input tensor as they are."""


class RawFrame(Struct, frozen=True):
    """One frame."""

    width: int
    """Pixels of a row; for samples, bytes."""
    height: int
    """Rows."""
    encoding: Encoding
    """How the bytes are pixels."""
    data: bytes
    """The bytes, row by row from the top left."""


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


class SourceError(Exception):
    """A source that cannot deliver a frame; the message says why, and what to do."""
