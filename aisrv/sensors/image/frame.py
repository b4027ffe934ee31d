"""Raw frames as a sensor delivers them, the part of one that is wanted, and sensors as sources of frames."""

import enum
import struct
from dataclasses import dataclass
from typing import Final, Protocol, Self

_REGION: Final = struct.Struct("<6H")


class Encoding(enum.Enum):
    """How the bytes of a frame stand for pixels, row by row from the top left."""

    BAYER_RGGB = "bayer"
    """One byte a pixel: red and green in even rows, green and blue in odd ones."""
    YUV422 = "yuv"
    """Two bytes a pixel: Y0 U Y1 V for each pair of pixels (BT.601, full range)."""
    RGB = "rgb"
    """Three bytes a pixel."""
    SAMPLES = "samples"
    """No picture: bytes that are the input tensor as they are."""


@dataclass(frozen=True, slots=True)
class RawFrame:
    """One frame."""

    width: int
    height: int
    encoding: Encoding
    data: bytes


@dataclass(frozen=True, slots=True)
class Region:
    """The part of a frame that is wanted, ends excluded, and the size that it is subsampled to.

    On the wire six u16, little-endian ("XCORE AI server: numbers and wire behavior", START_ACQUIRE_SINGLE).
    """

    start_x: int
    end_x: int
    start_y: int
    end_y: int
    width: int
    height: int

    def __bytes__(self) -> bytes:
        """Pack the six words."""
        return _REGION.pack(self.start_x, self.end_x, self.start_y, self.end_y, self.width, self.height)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Unpack the six words; ValueError for another length."""
        if len(data) != _REGION.size:
            raise ValueError(f"a region has {_REGION.size} bytes, not {len(data)}")
        return cls(*_REGION.unpack(data))


class Source(Protocol):
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
    """A source that has no frame to give; the message says why, and what to do."""
