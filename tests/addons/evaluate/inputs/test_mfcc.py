"""Coefficients of keyword spotting: by the sums that define them."""

import numpy as np
import pytest

from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.mfcc import Mfcc, _mel_weights, mfcc
from host_tools.tensors.tensor_spec import TensorSpec

NOISE = np.random.default_rng(5).integers(-20_000, 20_000, 16_000).astype("<i2")


def test_coefficients_are_those_of_the_sums_that_define_them() -> None:
    found = mfcc(NOISE, 480, 320, 10, 49)
    scaled = NOISE / NOISE.max()
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(480), np.arange(257)) / 512)
    magnitudes = np.array([abs((scaled[320 * i : 320 * i + 480] * window) @ turns) for i in range(49)])
    bands = np.log(magnitudes @ _mel_weights(257) + 1e-6)
    for number in range(10):
        waves = np.cos(np.pi * number * (2 * np.arange(40) + 1) / 80)
        assert np.allclose(found[:, number], 2 * (bands * waves).sum(axis=1) / np.sqrt(80), atol=1e-9)


def test_mel_bands_are_triangles_between_20_and_4000_hertz() -> None:
    weights = _mel_weights(257)
    hertz = np.linspace(0, 8000, 257)
    assert (weights[(hertz < 20) | (hertz > 4000)] == 0).all()
    assert weights.max() <= 1
    peaks = weights.argmax(axis=0)
    assert (np.diff(peaks) >= 0).all()


def test_as_many_coefficients_as_bands_at_most() -> None:
    front_end = Mfcc(480, 320)
    assert front_end.features(NOISE, TensorSpec((1, 49, 40), "float32")).shape == (49, 40)
    with pytest.raises(InputError, match="41 coefficients a window: there are 1 to 40"):
        front_end.features(NOISE, TensorSpec((1, 49, 41), "float32"))
