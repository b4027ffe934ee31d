"""Sounds as tensors: 16-bit WAV files, as samples or as the features of a front end."""

import io
import wave
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.evaluate.errors import InputError
from aisrv.evaluate.inputs.settings import InputSettings
from aisrv.inference.errors import InferenceError
from aisrv.inference.interpreter import create_interpreter, describe
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.regular_file import read_regular
from host_tools.tensors.tensor_spec import TensorSpec

Samples = npt.NDArray[np.int16]

RATE: Final = 16_000
"""Samples a second that front ends take."""
MFCC: Final = "mfcc"

_FULL_SCALE: Final = 32768.0
_BANDS: Final = 40
_LOWEST_HZ: Final = 20.0
_HIGHEST_HZ: Final = 4000.0
_FLOOR: Final = 1e-6
_FRONTEND_ARENA: Final = 1 << 20


def read_wav(data: bytes) -> tuple[Samples, int]:
    """Return the samples of a WAV file, of its first channel, and how many are a second; InputError.

    `data` are the file's bytes.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            if file.getsampwidth() != 2:
                raise InputError(f"{8 * file.getsampwidth()} bits a sample: 16 are read")
            frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
            return frames.reshape(-1, file.getnchannels())[:, 0].astype(np.int16), file.getframerate()
    except (wave.Error, EOFError, ValueError) as error:
        raise InputError(f"not a WAV file that can be read ({error})") from None


class FrontEnd:
    """A model that makes features of windows of sound, on TensorFlow Lite Micro."""

    def __init__(self, path: Path) -> None:
        """Load the model's file; InputError."""
        try:
            data = read_regular(path)
            self._interpreter = create_interpreter(EngineKind("tflm"))
            layout = self._interpreter.load(data, _FRONTEND_ARENA)
        except OSError as error:
            raise InputError(f"the front end {path}: {error.strerror}") from None
        except (ImportError, InferenceError) as error:
            raise InputError(f"the front end {path}: {describe(error)}") from None
        self._features = np.zeros(layout.outputs[0], np.int8)

    def features(self, window: Samples) -> npt.NDArray[np.int8]:
        """Return the features of a window of samples."""
        self._interpreter.set_input(0, window.data.cast("B"))
        self._interpreter.invoke()
        self._interpreter.get_output(0, self._features.data.cast("B"))
        return self._features.copy()


class SoundInput:
    """Makes one input tensor of sounds."""

    def __init__(self, settings: InputSettings, spec: TensorSpec) -> None:
        """Load the front end of the settings, where it is a model; `spec` is the tensor's. InputError."""
        self._settings = settings
        self._spec = spec
        self._size = int(np.prod(spec.shape))
        self._model: FrontEnd | None = None
        if settings.frontend not in ("", MFCC):
            self._model = FrontEnd(Path(settings.frontend))

    def tensor(self, data: bytes) -> bytes:
        """Return the tensor's bytes for a file, `data`; InputError."""
        samples, rate = read_wav(data)
        if self._settings.frontend and rate != RATE:
            raise InputError(f"{rate} samples a second: front ends take {RATE}")
        if self._model is not None:
            return self._features(self._model, samples)
        if self._settings.frontend == MFCC:
            rows = self._spec.shape[1] if len(self._spec.shape) > 1 else 1
            found = mfcc(samples, self._settings.window, self._settings.step, self._size // rows, rows)
            return self._quantized(found.ravel())
        return self._samples(samples)

    def _samples(self, samples: Samples) -> bytes:
        """Cut or fill up with silence to the tensor's length; of 16-bit tensors samples are the elements."""
        whole = np.zeros(self._size, np.int16)
        whole[: min(self._size, len(samples))] = samples[: self._size]
        if self._spec.dtype == "int16":
            return whole.astype("<i2").tobytes()
        return self._quantized(whole / _FULL_SCALE)

    def _quantized(self, real: npt.NDArray[np.float64]) -> bytes:
        elements = self._spec.quantize(real)
        return elements.astype(elements.dtype.newbyteorder("<")).tobytes()

    def _features(self, model: FrontEnd, samples: Samples) -> bytes:
        """Run the model on each window, as many as the tensor takes; the rest is filled with silence."""
        window, step = self._settings.window, self._settings.step
        first = self._window(model, samples[:window])
        count = self._size // max(len(first), 1)
        rows = [first] + [
            self._window(model, samples[number * step : number * step + window]) for number in range(1, count)
        ]
        found = np.concatenate(rows)
        if len(found) != self._size:
            raise InputError(
                f"the front end gives {len(first)} features a window, the tensor has {self._size} elements"
            )
        return found.astype(np.dtype(self._spec.dtype)).tobytes()

    def _window(self, model: FrontEnd, samples: Samples) -> npt.NDArray[np.int8]:
        whole = np.zeros(self._settings.window, "<i2")
        whole[: len(samples)] = samples
        try:
            return model.features(whole)
        except (InferenceError, ValueError, RuntimeError) as error:
            raise InputError(f"the front end {self._settings.frontend}: {describe(error)}") from None


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
