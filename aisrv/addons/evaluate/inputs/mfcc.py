"""Coefficients of sound as MLPerf Tiny's keyword spotting has them."""

from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.errors import InputError
from host_tools.tensors.tensor_spec import TensorSpec

Samples = npt.NDArray[np.int16]
"""Samples of a sound."""

RATE: Final = 16_000
"""Samples a second that front ends take."""

_BANDS: Final = 40
_LOWEST_HZ: Final = 20.0
_HIGHEST_HZ: Final = 4000.0
_FLOOR: Final = 1e-6


class Mfcc:
    """The front end of keyword spotting: a row of coefficients for each window."""

    def __init__(self, window: int, step: int) -> None:
        """Take the samples of a window, and those from one window to the next."""
        self._window = window
        self._step = step

    def features(self, samples: Samples, spec: TensorSpec) -> npt.NDArray[np.float64]:
        """Return the coefficients of `samples`, a window for each row of the tensor `spec`; InputError."""
        rows = spec.shape[1] if len(spec.shape) > 1 else 1
        count = int(np.prod(spec.shape)) // max(rows, 1)
        if not 0 < count <= _BANDS:
            raise InputError(f"{count} coefficients a window: there are 1 to {_BANDS}")
        return mfcc(samples, self._window, self._step, count, rows)


def mfcc(samples: Samples, window: int, step: int, count: int, rows: int) -> npt.NDArray[np.float64]:
    """Return `count` coefficients of each of as many windows as `rows`, as MLPerf Tiny's keywords have them.

    The way is that of get_dataset.py of mlcommons/tiny: divided by the largest sample, filled up with
    silence, Hann windows, magnitudes of the smallest transform that holds a window, 40 mel bands from 20 to
    4,000 Hz, logarithm, cosine transform. `step` is the samples from one window to the next.
    """
    wanted = (rows - 1) * step + window
    real = np.zeros(wanted)
    scale = max(float(samples.max(initial=0)), 1.0)
    real[: min(wanted, len(samples))] = samples[:wanted] / scale
    points = 1 << (window - 1).bit_length()
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    frames = np.lib.stride_tricks.sliding_window_view(real, window)[::step] * hann
    spectrum = np.abs(np.fft.rfft(frames, points))
    bands = np.log(spectrum @ _mel_weights(points // 2 + 1) + _FLOOR)
    number = np.arange(_BANDS)
    transform = np.cos(np.pi * np.outer(number[:count], 2 * number + 1) / (2 * _BANDS))
    found: npt.NDArray[np.float64] = bands @ transform.T * np.sqrt(2 / _BANDS)
    return found


def _mel_weights(bins: int) -> npt.NDArray[np.float64]:
    """Return triangles of mel bands over the bins of a transform, [bins, bands]; bin 0 counts for none."""

    def mel(hertz: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
        return np.asarray(1127.0 * np.log1p(np.asarray(hertz) / 700.0))

    at = mel(np.linspace(0, RATE / 2, bins)[1:])[:, None]
    edges = np.linspace(mel(_LOWEST_HZ), mel(_HIGHEST_HZ), _BANDS + 2)
    lower, center, upper = edges[:-2], edges[1:-1], edges[2:]
    slopes = np.minimum((at - lower) / (center - lower), (upper - at) / (upper - center))
    return np.concatenate((np.zeros((1, _BANDS)), np.maximum(slopes, 0)))
