"""Front ends: what makes features of a sound, for models that do not take samples.

Those that are models or packages keep an estimate of the noise from window to window, so that every sound
begins with a new one.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.errors import ExtraError, InputError
from aisrv.addons.evaluate.inputs.mfcc import Mfcc, Samples
from aisrv.addons.evaluate.inputs.settings import (
    MFCC,
    MICRO_SPEECH,
    MICRO_WAKE_WORD,
    WAKE_WORD_WINDOWS,
    InputSettings,
)
from aisrv.inference.errors import InferenceError
from aisrv.inference.interpreter import Interpreter, create_interpreter, describe
from aisrv.inference.packages import missing_package
from aisrv.model import Model
from aisrv.model.dtypes import DTYPES
from aisrv.model.errors import ModelFileError
from aisrv.model.reader import read_model
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.extras import import_failure
from aisrv.values.regular_file import read_regular
from host_tools.errors import TensorError
from host_tools.tensors.tensor_spec import TensorSpec

Array = npt.NDArray[Any]

_PREPROCESSOR: Final = "audio_preprocessor_int8.tflite"
_ENGINE: Final = EngineKind("tflm")
_ARENA_BYTES: Final = 1 << 20
_WAKE_WORD_FEATURES: Final = 40


class FrontEnd(Protocol):
    """Makes the features of a sound that fill a tensor."""

    def features(self, samples: Samples, spec: TensorSpec) -> Array:
        """Return elements in the type of the tensor `spec`, or float64: real numbers. InputError.

        What a short sound leaves over is silence; of a long one the start counts.
        """


def front_end(settings: InputSettings) -> FrontEnd:
    """Return the front end of settings that name one; InputError, ExtraError."""
    if settings.frontend == MFCC:
        return Mfcc(settings.window, settings.step)
    if settings.frontend == MICRO_WAKE_WORD:
        return MicroWakeWord()
    if settings.frontend == MICRO_SPEECH:
        data = files(__package__).joinpath(_PREPROCESSOR).read_bytes()
    else:
        try:
            data = read_regular(Path(settings.frontend))
        except OSError as error:
            raise InputError(f"the front end {settings.frontend}: {error.strerror}") from None
    return ModelFrontEnd(settings.frontend, data, settings.window, settings.step)


class ModelFrontEnd:
    """A model that makes features of windows of int16 samples, on TensorFlow Lite Micro."""

    def __init__(self, name: str, data: bytes, window: int, step: int) -> None:
        """Check a model's file, and that it loads; InputError.

        `name` is for messages, `window` the samples of a window, `step` those from one window to the next.
        """
        self._name, self._data, self._window, self._step = name, data, window, step
        missing = missing_package(_ENGINE)
        if missing is not None:
            raise ExtraError(f"the front end {name}: {missing}")
        try:
            model = read_model(data)
        except ModelFileError as error:
            raise self._error(error) from None
        self._output: Final = self._checked_output(model)
        self._load()

    def _checked_output(self, model: Model) -> TensorSpec:
        """Return the one output of a model whose one input is a window of samples; InputError."""
        if len(model.input_tensors) != 1 or len(model.output_tensors) != 1:
            raise InputError(f"the front end {self._name}: a model with one input and one output is wanted")
        (given,), (output,) = model.input_tensors, model.output_tensors
        samples = int(np.prod(given.shape))
        if DTYPES.get(given.type) != np.dtype(np.int16):
            raise InputError(f"the front end {self._name} takes {given.type.name}, int16 samples are wanted")
        if samples != self._window:
            raise InputError(
                f"the front end {self._name} takes windows of {samples} samples, not {self._window}: "
                f"write window = {samples}"
            )
        try:
            return TensorSpec.of(output)
        except TensorError as error:
            raise self._error(error) from None

    def _load(self) -> Interpreter:
        """Return an interpreter whose windows begin anew."""
        try:
            interpreter = create_interpreter(_ENGINE)
            interpreter.load(self._data, _ARENA_BYTES)
        except (ImportError, InferenceError, RuntimeError) as error:
            raise self._error(error) from None
        return interpreter

    def features(self, samples: Samples, spec: TensorSpec) -> Array:
        """Run the model on as many windows as the tensor takes.

        Elements of the tensor's own type stay as they are, others become what they stand for.
        """
        windows = _windows(self._name, int(np.prod(self._output.shape)), spec)
        whole = _cut(samples, (windows - 1) * self._step + self._window)
        elements = np.zeros((windows, self._output.nbytes), np.uint8)
        interpreter = self._load()
        try:
            for number, into in enumerate(elements):
                start = number * self._step
                interpreter.set_input(0, whole[start : start + self._window].data.cast("B"))
                interpreter.invoke()
                interpreter.get_output(0, into.data)
        except (InferenceError, ValueError, RuntimeError) as error:
            raise self._error(error) from None
        if self._output.dtype == spec.dtype:
            return elements.view(np.dtype(spec.dtype).newbyteorder("<"))
        real = [self._output.values(each.tobytes()) for each in elements]
        return np.stack(real).astype(np.float64)

    def _error(self, error: Exception) -> InputError:
        return InputError(f"the front end {self._name}: {describe(error)}")


class MicroWakeWord:
    """The features of microWakeWord, by its own package: 40 of each 30 ms, every 10 ms."""

    def __init__(self) -> None:
        """Import the package; ExtraError."""
        try:
            from pymicro_features import MicroFrontend
        except ImportError as error:
            needs = f"the front end {MICRO_WAKE_WORD} needs pymicro-features"
            raise ExtraError(import_failure(needs, error, "wakewords")) from None
        self._new: Final = MicroFrontend

    def features(self, samples: Samples, spec: TensorSpec) -> Array:
        """Fill the tensor with the features of as many windows as it takes."""
        windows = _windows(MICRO_WAKE_WORD, _WAKE_WORD_FEATURES, spec)
        window, step = WAKE_WORD_WINDOWS
        whole = _cut(samples, (windows - 1) * step + window)
        front_end = self._new()
        found: list[float] = []
        for start in range(0, len(whole), step):
            found += front_end.process_samples(whole[start : start + step].tobytes()).features
        return np.array(found)


def _windows(name: str, features: int, spec: TensorSpec) -> int:
    """Return how many windows of as many features fill a tensor; InputError, with the front end's name."""
    size = int(np.prod(spec.shape))
    windows, left = divmod(size, max(features, 1))
    if left or not windows:
        raise InputError(
            f"the front end {name} gives {features} features a window, the tensor has {size} elements"
        )
    return windows


def _cut(samples: Samples, count: int) -> Samples:
    """Return as many samples, with silence behind those of a short sound."""
    whole = np.zeros(count, "<i2")
    whole[: len(samples)] = samples[:count]
    return whole
