"""Sounds as tensors: 16-bit WAV files, as samples or as the features of a front end."""

import io
import wave
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.front_ends import front_end
from aisrv.addons.evaluate.inputs.mfcc import RATE, Samples
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.values.parser_errors import parser_errors
from host_tools.tensors.tensor_spec import TensorSpec

_FULL_SCALE: Final = 32768.0


def read_wav(data: bytes) -> tuple[Samples, int]:
    """Return the samples of a WAV file, of its first channel, and how many are a second; InputError.

    `data` are the file's bytes.
    """
    with parser_errors("not a WAV file that can be read", InputError), wave.open(io.BytesIO(data)) as file:
        if file.getsampwidth() != 2:
            raise InputError(f"{8 * file.getsampwidth()} bits a sample: 16 are read")
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return frames.reshape(-1, file.getnchannels())[:, 0].astype(np.int16), file.getframerate()


class SoundInput:
    """Makes one input tensor of sounds."""

    def __init__(self, settings: InputSettings, spec: TensorSpec) -> None:
        """Make the front end of the settings, where they name one; `spec` is the tensor's. InputError."""
        self._spec = spec
        self._front_end = front_end(settings) if settings.frontend else None

    def tensor(self, data: bytes) -> bytes:
        """Return the tensor's bytes for a file, `data`; InputError."""
        samples, rate = read_wav(data)
        if self._front_end is None:
            return self._elements(self._samples(samples))
        if rate != RATE:
            raise InputError(f"{rate} samples a second: front ends take {RATE}")
        return self._elements(self._front_end.features(samples, self._spec))

    def _samples(self, samples: Samples) -> npt.NDArray[Any]:
        """Cut or fill up with silence to the tensor's length; of 16-bit tensors samples are the elements."""
        size = int(np.prod(self._spec.shape))
        whole = np.zeros(size, np.int16)
        whole[: min(size, len(samples))] = samples[:size]
        return whole if self._spec.dtype == "int16" else whole / _FULL_SCALE

    def _elements(self, found: npt.NDArray[Any]) -> bytes:
        """Return the tensor's bytes of elements of its type, or of real numbers."""
        elements = found if found.dtype == np.dtype(self._spec.dtype) else self._spec.quantize(found)
        return elements.astype(elements.dtype.newbyteorder("<")).tobytes()
