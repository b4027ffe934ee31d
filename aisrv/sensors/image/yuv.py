"""YUV 4:2:2: the planes of a frame, RGB from them and frames from pictures.

BT.601 in full range: Y = 0.299 R + 0.587 G + 0.114 B, U = 128 + (B - Y) / 1.772, V = 128 + (R - Y) / 1.402.
Source: Recommendation ITU-T T.871 (JPEG File Interchange Format), section 7. The two pixels of a pair have
one U and one V: those of their mean.
"""

from typing import Final

import numpy as np

from aisrv.sensors.image.resample import Bytes, Floats, Plane, Term, each_sample

LUMA: Final = Term(Plane(0, 1, 0, 2), each_sample, each_sample)


def _of_pair(pixel: int) -> tuple[tuple[int, int]]:
    return ((pixel // 2, 1),)


YUV_CHANNELS: Final = (
    (LUMA,),
    (Term(Plane(0, 1, 1, 4), each_sample, _of_pair),),
    (Term(Plane(0, 1, 3, 4), each_sample, _of_pair),),
)


def rgb_of(y: Floats, u: Floats, v: Floats, norm: int) -> Bytes:
    """RGB (height, width, 3) of means given as sums of `norm` times the mean."""
    luma = y.astype(np.float64)
    blue, red = u.astype(np.float64), v.astype(np.float64)
    luma += 0.5 * norm  # rounds half upwards where the division truncates
    blue -= 128.0 * norm
    red -= 128.0 * norm
    picture = np.empty((*y.shape, 3), np.uint8)
    _fill(picture[:, :, 0], luma + 1.402 * red, norm)
    _fill(picture[:, :, 1], luma - (0.114 * 1.772 / 0.587) * blue - (0.299 * 1.402 / 0.587) * red, norm)
    _fill(picture[:, :, 2], luma + 1.772 * blue, norm)
    return picture


def _fill(channel: Bytes, sums: Floats, norm: int) -> None:
    sums /= norm
    np.clip(sums, 0, 255, out=sums)
    channel[...] = sums  # truncated


def pack_yuv422(picture: Bytes) -> Bytes:
    """Frame (height, 2 width) of a picture (height, width, 3) of even width."""
    red, green, blue = (picture[:, :, channel].astype(np.float64) for channel in range(3))
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    planes = (luma, _mean_of_pairs(128 + (blue - luma) / 1.772), _mean_of_pairs(128 + (red - luma) / 1.402))
    y, u, v = (np.clip(np.floor(plane + 0.5), 0, 255).astype(np.uint8) for plane in planes)
    frame = np.empty((picture.shape[0], 2 * picture.shape[1]), np.uint8)
    frame[:, 0::2], frame[:, 1::4], frame[:, 3::4] = y, u, v
    return frame


def _mean_of_pairs(plane: Floats) -> Floats:
    mean: Floats = (plane[:, 0::2] + plane[:, 1::2]) / 2
    return mean
