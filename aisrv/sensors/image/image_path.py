"""The image path: raw frame -> region -> smaller or larger size -> RGB or gray int8, as models expect it.

Shrinking averages areas, enlarging interpolates linearly (`resample`); Bayer frames are demosaiced bilinearly
(`demosaic`), YUV frames are converted by BT.601 after resampling (`yuv`). All steps are one linear filter
with one rounding at the end, half upwards: nothing is lost to bytes in between. NumPy loads with the first
frame.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from aisrv.protocol.commands import FrameRegion
from aisrv.sensors.image.frame import Encoding, FrameError, RawFrame, check_frame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from aisrv.sensors.image.resample import Bytes, Floats, Resampler

    Whole = npt.NDArray[np.integer[Any]]

RGB_CHANNELS: Final = 3
KEPT_FILTERS: Final = 8
"""Sizes and regions whose filters are cached; a host may name any number of regions."""


class RegionError(ValueError):
    """A region that is not inside the frame, is empty, or has no room as a tensor."""


def check_region(
    region: FrameRegion, width: int, height: int, room: int | None, channels: int = RGB_CHANNELS
) -> None:
    """Check a region of a frame of `width` x `height` pixels, and its tensor against `room` bytes.

    None for `room` means that any tensor has room. Raises RegionError, which names the number that is wrong.
    `channels` is 1 for gray or 3 for RGB.
    """
    _check_axis("columns", region.start_x, region.end_x, width)
    _check_axis("rows", region.start_y, region.end_y, height)
    for name, target in (("width", region.width), ("height", region.height)):
        if target < 1:
            raise RegionError(f"target {name} of {target}: it is 1 pixel or more")
    size = region.width * region.height * channels
    if room is not None and size > room:
        raise RegionError(
            f"target of {region.width}x{region.height} in {channels} channels is {size} bytes,"
            f" more than the {room} of the tensor"
        )


def _check_axis(name: str, start: int, end: int, length: int) -> None:
    if start < 0:
        raise RegionError(f"{name} start at {start}, before the frame")
    if end == start:
        raise RegionError(f"{name} {start} to {end} are empty: the end is excluded")
    if end < start:
        raise RegionError(f"{name} {start} to {end} end before they start")
    if end > length:
        raise RegionError(f"{name} end at {end}, beyond the {length} of the frame")


class ImagePath:
    """Turns frames into tensors, and keeps the filters of the last few sizes and regions."""

    def __init__(self) -> None:
        self._resampler = lru_cache(KEPT_FILTERS)(_make_resampler)

    def to_tensor(self, frame: RawFrame, region: FrameRegion) -> bytes:
        """Return RGB int8, value - 128, [height, width, 3]. Raises FrameError, RegionError."""
        return _as_int8(self.to_pixels(frame, region))

    def to_gray(self, frame: RawFrame, region: FrameRegion) -> bytes:
        """Return gray (0.299 R + 0.587 G + 0.114 B), else as `to_tensor`: int8, [height, width]."""
        return _as_int8(self._convert(frame, region, _TO_GRAY))

    def to_pixels(self, frame: RawFrame, region: FrameRegion) -> "Bytes":
        """Return RGB without the offset, as an array (height, width, 3). Raises as `to_tensor`."""
        return self._convert(frame, region, _TO_RGB)

    def _convert(
        self, frame: RawFrame, region: FrameRegion, converters: "dict[Encoding, Converter]"
    ) -> "Bytes":
        if frame.encoding is Encoding.SAMPLES:
            raise FrameError("a frame of samples is not a picture: it goes into the tensor as it is")
        check_frame(frame)
        check_region(region, frame.width, frame.height, None)
        import numpy as np

        resampler = self._resampler(frame.width, frame.height, frame.encoding, region)
        rows = np.frombuffer(frame.data, np.uint8).reshape(frame.height, -1)
        return converters[frame.encoding](resampler, resampler.sums(rows))


def _as_int8(pixels: "Bytes") -> bytes:
    return (pixels ^ 0x80).tobytes()  # value - 128 in two's complement


def _make_resampler(width: int, height: int, encoding: Encoding, region: FrameRegion) -> "Resampler":
    from aisrv.sensors.image.demosaic import UNIT, bayer_channels
    from aisrv.sensors.image.resample import AxisSpan, Plane, Resampler, Term, each_sample
    from aisrv.sensors.image.yuv import YUV_CHANNELS

    rows = AxisSpan(region.start_y, region.end_y, region.height)
    columns = AxisSpan(region.start_x, region.end_x, region.width)
    if encoding is Encoding.BAYER_RGGB:
        return Resampler(rows, columns, bayer_channels(width, height), UNIT)
    if encoding is Encoding.YUV422:
        return Resampler(rows, columns, YUV_CHANNELS, 1)
    rgb = [(Term(Plane(0, 1, channel, 3), each_sample, each_sample),) for channel in range(3)]
    return Resampler(rows, columns, rgb, 1)


def _mean(sums: "Floats | Whole", norm: int, single: bool) -> "Bytes":
    import numpy as np

    whole: Whole = sums.astype(np.int32 if single else np.int64)
    mean: Whole = (2 * whole + norm) // (2 * norm)
    return mean.astype(np.uint8)


def _rgb_from_rgb(resampler: "Resampler", sums: "list[Floats]") -> "Bytes":
    import numpy as np

    return np.stack([_mean(channel, resampler.norm, resampler.exact_in_single) for channel in sums], axis=-1)


def _rgb_from_yuv(resampler: "Resampler", sums: "list[Floats]") -> "Bytes":
    from aisrv.sensors.image.yuv import rgb_of

    y, u, v = sums
    return rgb_of(y, u, v, resampler.norm)


def _gray_from_rgb(resampler: "Resampler", sums: "list[Floats]") -> "Bytes":
    import numpy as np

    red, green, blue = (channel.astype(np.int64) for channel in sums)
    return _mean(299 * red + 587 * green + 114 * blue, 1000 * resampler.norm, single=False)


def _gray_from_yuv(resampler: "Resampler", sums: "list[Floats]") -> "Bytes":
    return _mean(sums[0], resampler.norm, resampler.exact_in_single)


Converter = Callable[["Resampler", "list[Floats]"], "Bytes"]

_TO_RGB: "Final[dict[Encoding, Converter]]" = {
    Encoding.BAYER_RGGB: _rgb_from_rgb,
    Encoding.YUV422: _rgb_from_yuv,
    Encoding.RGB: _rgb_from_rgb,
}
_TO_GRAY: "Final[dict[Encoding, Converter]]" = {
    Encoding.BAYER_RGGB: _gray_from_rgb,
    Encoding.YUV422: _gray_from_yuv,
    Encoding.RGB: _gray_from_rgb,
}
