"""OpenCV beside the image path: the same steps by `cvtColor` and `resize`, their speed and their errors.

python -m benchmarks.opencv

Two ways with OpenCV. "bytes" is what its functions do by themselves: demosaicing to bytes, resizing bytes.
"floats" keeps fractions: the mosaic in 16 bits and four times as large, mirrored at its edges, so that the
means of two and four neighbors are whole; then resizing in single precision, and one rounding. Errors are
those against the image path, whose results are the exact ones rounded once (tests/sensors/image).
"""

import random
from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np
import numpy.typing as npt
import trio

from aisrv.protocol.commands import FrameRegion
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.sensors.image.image_path import ImagePath
from aisrv.sensors.sources.patterns import Pattern, PatternSource
from benchmarks.rows import Row
from benchmarks.sensors import HEIGHT, TARGETS, WIDTH, fastest

if TYPE_CHECKING:
    from collections.abc import Callable

Pixels = npt.NDArray[np.uint8]
Picture = npt.NDArray[Any]

MIRROR: Final = 2
"""Pixels beyond the edge that demosaicing looks at, kept even so that the order of colors stays."""
REGIONS: Final = 60
"""Random regions and sizes, to count errors."""

BLUE, RED = 1.772, 1.402
GREEN: Final = (-0.114 * BLUE / 0.587, -0.299 * RED / 0.587)
TO_RGB: Final = np.array(
    [
        [1, 0, RED, -128 * RED],
        [1, *GREEN, -128 * sum(GREEN)],
        [1, BLUE, 0, -128 * BLUE],
    ]
)
"""Y, U, V and 1 to red, green and blue."""


def _interpolation(length: int, target: int) -> int:
    return cv2.INTER_AREA if length >= target else cv2.INTER_LINEAR


def _resize(picture: Picture, width: int, height: int) -> Picture:
    """Resize by area where an axis shrinks, else linearly; in one call where both axes agree."""
    rows, columns = _interpolation(picture.shape[0], height), _interpolation(picture.shape[1], width)
    if rows == columns:
        return cv2.resize(picture, (width, height), interpolation=rows)
    narrow = cv2.resize(picture, (width, picture.shape[0]), interpolation=columns)
    return cv2.resize(narrow, (width, height), interpolation=rows)


def _rounded(picture: Picture) -> Pixels:
    whole: Picture = np.clip(np.floor(picture.astype(np.float32) + np.float32(0.5)), 0, 255)
    return whole.astype(np.uint8)


def _bayer_bytes(frame: Pixels, width: int, height: int) -> Pixels:
    return _resize(cv2.cvtColor(frame, cv2.COLOR_BayerRGGB2RGB), width, height).astype(np.uint8)


def _bayer_floats(frame: Pixels, width: int, height: int) -> Pixels:
    border = MIRROR, MIRROR, MIRROR, MIRROR
    mirrored = cv2.copyMakeBorder(frame, *border, cv2.BORDER_REFLECT_101).astype(np.uint16)
    picture = cv2.cvtColor(mirrored << 2, cv2.COLOR_BayerRGGB2RGB)[MIRROR:-MIRROR, MIRROR:-MIRROR]
    return _rounded(_resize(picture.astype(np.float32), width, height) * np.float32(0.25))


def _yuv_bytes(frame: Pixels, width: int, height: int) -> Pixels:
    """OpenCV's YCrCb is BT.601 in full range; its order is Y, V, U."""
    pairs = frame.reshape(frame.shape[0], -1, 4)
    luma = np.ascontiguousarray(frame[:, 0::2])
    planes = luma, np.ascontiguousarray(pairs[:, :, 3]), np.ascontiguousarray(pairs[:, :, 1])
    resized = np.dstack([_resize(plane, width, height) for plane in planes])
    return cv2.cvtColor(resized, cv2.COLOR_YCrCb2RGB).astype(np.uint8)


def _yuv_floats(frame: Pixels, width: int, height: int) -> Pixels:
    """Both pixels of a pair have its color differences; the matrix is that of the image path."""
    pairs = frame.reshape(frame.shape[0], -1, 4).astype(np.float32)
    luma = pairs[:, :, 0::2].reshape(frame.shape[0], -1)
    chroma = (np.repeat(pairs[:, :, column], 2, axis=1) for column in (1, 3))
    planes = np.dstack([_resize(plane, width, height) for plane in (luma, *chroma)])
    return _rounded(cv2.transform(planes, TO_RGB))


def _rgb_bytes(frame: Pixels, width: int, height: int) -> Pixels:
    return _resize(frame.reshape(frame.shape[0], -1, 3), width, height).astype(np.uint8)


def _rgb_floats(frame: Pixels, width: int, height: int) -> Pixels:
    return _rounded(_resize(frame.reshape(frame.shape[0], -1, 3).astype(np.float32), width, height))


WAYS: Final = {
    Encoding.BAYER_RGGB: (_bayer_bytes, _bayer_floats),
    Encoding.YUV422: (_yuv_bytes, _yuv_floats),
    Encoding.RGB: (_rgb_bytes, _rgb_floats),
}


async def _frame(encoding: Encoding) -> RawFrame:
    return await PatternSource(Pattern.NOISE, WIDTH, HEIGHT, encoding).frame()


def run() -> list[Row]:
    """Measure on one thread; about 20 s."""
    cv2.setNumThreads(1)
    return [row for encoding in WAYS for size in TARGETS for row in _compare(encoding, *size)] + _regions()


def _compare(encoding: Encoding, width: int, height: int) -> list[Row]:
    frame = trio.run(_frame, encoding)
    pixels = np.frombuffer(frame.data, np.uint8).reshape(HEIGHT, -1)
    region = FrameRegion(0, WIDTH, 0, HEIGHT, width, height)
    path = ImagePath()
    name = f"{encoding.value} to {width}x{height}"
    actions: list[Callable[[], object]] = [lambda: path.to_pixels(frame, region)]
    actions += [lambda way=way: way(pixels, width, height) for way in WAYS[encoding]]  # type: ignore[misc]
    ours, *theirs = fastest(*actions)
    rows = [Row(f"image path, {name}", 1e3 * ours, "ms")]
    exact = path.to_pixels(frame, region).astype(int)
    for label, way, seconds in zip(("bytes", "floats"), WAYS[encoding], theirs, strict=True):
        error = np.abs(way(pixels, width, height).astype(int) - exact)
        rows += [
            Row(f"OpenCV, {label}, {name}", 1e3 * seconds, "ms"),
            Row(f"OpenCV, {label}, {name}: largest error", int(error.max()), "steps"),
            Row(f"OpenCV, {label}, {name}: values that differ", 100 * float(np.mean(error > 0)), "%"),
        ]
    return rows


def _regions() -> list[Row]:
    """Resize regions of an RGB frame to sizes that are not whole multiples, in floats."""
    frame = trio.run(_frame, Encoding.RGB)
    pixels = np.frombuffer(frame.data, np.uint8).reshape(HEIGHT, WIDTH, 3)
    path, draw = ImagePath(), random.Random(1)
    wrong = differ = values = 0
    for _ in range(REGIONS):
        left, top = draw.randrange(300), draw.randrange(200)
        right, bottom = draw.randrange(left + 20, WIDTH + 1), draw.randrange(top + 20, HEIGHT + 1)
        width, height = draw.randrange(8, 400), draw.randrange(8, 300)
        exact = path.to_pixels(frame, FrameRegion(left, right, top, bottom, width, height))
        part = np.ascontiguousarray(pixels[top:bottom, left:right])
        count = int(np.count_nonzero(_rgb_floats(part.reshape(bottom - top, -1), width, height) != exact))
        wrong += count > 0
        differ += count
        values += exact.size
    return [
        Row(f"OpenCV, floats, {REGIONS} regions of rgb: with an error", wrong, "regions"),
        Row(f"OpenCV, floats, {REGIONS} regions of rgb: values that differ", 1e6 * differ / values, "ppm"),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
