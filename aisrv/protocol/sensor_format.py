"""Size and encoding of a sensor's frames: the answer of GET_SENSOR_FORMAT. The layout is ours."""

import enum

from aisrv.protocol.commands import AisrvPacket
from aisrv.values.packet import U32


class PixelEncoding(enum.IntEnum):
    """How the bytes of a frame are pixels, row by row from the top left."""

    BAYER = 0
    """One byte a pixel: red and green in even rows, green and blue in odd ones."""
    YUV = 1
    """Two bytes a pixel: Y0 U Y1 V for each pair of pixels (BT.601, full range)."""
    RGB = 2
    """Three bytes a pixel."""
    SAMPLES = 3
    """No picture."""


class SensorFormat(AisrvPacket, name="a sensor's format"):
    """The format of all frames of a sensor."""

    width: U32
    """Pixels of a row; for samples, bytes."""
    height: U32
    encoding: U32
    """A `PixelEncoding`, or another number."""
