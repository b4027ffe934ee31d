"""Sounds: WAV files as samples and as coefficients."""

import io
import wave

import numpy as np
import pytest

from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.mfcc import mfcc
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.addons.evaluate.inputs.sounds import read_wav
from host_tools.tensors.tensor_spec import TensorSpec


def wav(samples: np.ndarray, rate: int = 16_000, width: int = 2, channels: int = 1) -> bytes:  # type: ignore[type-arg]
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return content.getvalue()


NOISE = np.random.default_rng(5).integers(-20_000, 20_000, 16_000).astype("<i2")


def test_samples_and_rate_of_the_first_channel() -> None:
    samples, rate = read_wav(wav(np.array([1, -1, 2, -2], "<i2"), 8000, channels=2))
    assert (samples.tolist(), rate) == ([1, 2], 8000)


def test_other_widths_and_other_files_are_refused() -> None:
    with pytest.raises(InputError, match="24 bits a sample: 16 are read"):
        read_wav(wav(np.zeros(6, np.uint8), width=3))
    for data in (b"", b"RIFF", wav(NOISE)[:30]):
        with pytest.raises(InputError, match="not a WAV file that can be read"):
            read_wav(data)


def test_samples_fill_the_tensor() -> None:
    spec = TensorSpec((1, 6), "int16")
    settings = InputSettings(kind="audio")
    row = Preparation((spec,), (settings,)).file_row(wav(np.array([5, -6, 7], "<i2")))
    assert np.frombuffer(row, "<i2").tolist() == [5, -6, 7, 0, 0, 0]
    real = TensorSpec((1, 2), "float32")
    row = Preparation((real,), (settings,)).file_row(wav(np.array([16384, -32768, 7], "<i2")))
    assert np.frombuffer(row, "<f4").tolist() == [0.5, -1.0]


def test_coefficients_as_a_tensor_need_16_000_samples_a_second() -> None:
    spec = TensorSpec((1, 49, 10, 1), "int8", 0.58, 83)
    preparation = Preparation((spec,), (InputSettings(kind="audio", frontend="mfcc"),))
    expected = spec.quantize(mfcc(NOISE, 480, 320, 10, 49))
    assert preparation.file_row(wav(NOISE)) == expected.tobytes()
    with pytest.raises(InputError, match="8000 samples a second: front ends take 16000"):
        preparation.file_row(wav(NOISE, 8000))
