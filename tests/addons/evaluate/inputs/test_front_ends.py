"""Front ends that are models or packages: TFLM's features of its own sounds, windows, what is refused.

The first features of 30 ms and the words are those of micro_speech_test.cc of tflite-micro.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.errors import ExtraError, InputError
from aisrv.addons.evaluate.inputs.front_ends import front_end
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.addons.evaluate.inputs.sounds import read_wav
from aisrv.inference.batch import run_batch
from aisrv.inference.interpreter import create_interpreter
from aisrv.model.reader import read_model
from aisrv.protocol.engine_kind import EngineKind
from host_tools.tensors.tensor_spec import TensorSpec
from tests.support.paths import ROOT
from tests.support.peers import tflite_micro_models

SOUNDS = ROOT / "tests/golden/micro_speech"
LABELS = ("silence", "unknown", "yes", "no")
FIRST = {
    "yes": "124 105 126 103 125 101 123 100 116 98 115 97 113 90 91 82 104 96 117 97 "
    "121 103 126 101 125 104 126 104 125 101 116 90 81 74 80 71 83 76 82 71",
    "no": "126 103 124 102 124 102 123 100 118 97 118 100 118 98 121 100 121 98 117 91 "
    "96 74 54 87 100 87 109 92 91 80 64 55 83 74 74 78 114 95 101 81",
}
PREPROCESSOR = ROOT / "aisrv/addons/evaluate/inputs/audio_preprocessor_int8.tflite"


def sound(name: str) -> np.ndarray:  # type: ignore[type-arg]
    return read_wav((SOUNDS / f"{name}.wav").read_bytes())[0]


@pytest.mark.parametrize("name", ["yes", "no"])
def test_features_of_a_window_are_those_of_tflm(name: str) -> None:
    found = front_end(InputSettings(frontend="micro_speech")).features(
        sound(f"{name}_30ms"), TensorSpec((1, 40))
    )
    assert found.ravel().tolist() == [int(each) for each in FIRST[name].split()]


def test_the_four_sounds_of_tflm_come_out_right_whatever_came_before() -> None:
    model = tflite_micro_models.model_bytes("micro_speech_quantized")
    specs = tuple(map(TensorSpec.of, read_model(model).input_tensors))
    preparation = Preparation(specs, (InputSettings(kind="audio", frontend="micro_speech"),))
    names = {"yes": "yes", "no": "no", "noise": "silence", "silence": "silence"}
    rows = [preparation.file_row((SOUNDS / f"{name}_1000ms.wav").read_bytes()) for name in names]
    again = [preparation.file_row((SOUNDS / f"{name}_1000ms.wav").read_bytes()) for name in reversed(names)]
    assert rows == again[::-1]
    interpreter = create_interpreter(EngineKind("tflm"))
    interpreter.load(model, 1 << 20)
    out = np.zeros((4, 4), np.int8)
    run_batch(interpreter, [[memoryview(row) for row in rows]], [[row.data.cast("B") for row in out]])
    assert [LABELS[number] for number in out.argmax(axis=1)] == list(names.values())


def test_a_file_gives_what_its_windows_give_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "own.tflite"
    path.write_bytes(PREPROCESSOR.read_bytes())
    samples = sound("yes_1000ms")
    spec = TensorSpec((1, 5, 40))
    every = {
        step: front_end(InputSettings(frontend=str(path), step=step)).features(samples, spec)
        for step in (320, 480)
    }
    assert np.array_equal(every[320][0], every[480][0])
    assert not np.array_equal(every[320][1], every[480][1])
    joined = np.concatenate([samples[320 * number : 320 * number + 480] for number in range(5)])
    assert np.array_equal(
        every[320], front_end(InputSettings(frontend=str(path), step=480)).features(joined, spec)
    )
    with pytest.raises(InputError, match="takes windows of 480 samples, not 400: write window = 480"):
        front_end(InputSettings(frontend=str(path), window=400))


def test_features_of_another_type_are_quantized_to_the_tensors() -> None:
    spec = TensorSpec((1, 3, 40), "uint8", 2.0, 10)
    row = Preparation((spec,), (InputSettings(kind="audio", frontend="micro_speech"),)).file_row(
        (SOUNDS / "no_1000ms.wav").read_bytes()
    )
    plain = front_end(InputSettings(frontend="micro_speech")).features(
        sound("no_1000ms"), TensorSpec((3, 40))
    )
    assert row == spec.quantize(plain.astype(np.float64)).tobytes()


def test_a_short_sound_ends_in_silence() -> None:
    made = front_end(InputSettings(frontend="micro_speech"))
    short = sound("yes_1000ms")[:800]
    filled = np.concatenate((short, np.zeros(4000, np.int16)))
    spec = TensorSpec((1, 6, 40))
    assert np.array_equal(made.features(short, spec), made.features(filled, spec))


def test_what_a_front_end_cannot_be(tmp_path: Path) -> None:
    spec = TensorSpec((1, 41))
    with pytest.raises(InputError, match="micro_speech gives 40 features a window, the tensor has 41"):
        front_end(InputSettings(frontend="micro_speech")).features(sound("yes_30ms"), spec)
    with pytest.raises(InputError, match=r"nowhere\.tflite: No such file"):
        front_end(InputSettings(frontend=str(tmp_path / "nowhere.tflite")))
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"none")
    with pytest.raises(InputError, match=r"broken\.tflite: "):
        front_end(InputSettings(frontend=str(broken)))
    broken.write_bytes(digits.model_bytes())
    with pytest.raises(InputError, match="takes INT8, int16 samples are wanted"):
        front_end(InputSettings(frontend=str(broken)))


def test_wake_word_features_are_those_of_their_package() -> None:
    from pymicro_features import MicroFrontend

    samples = sound("yes_1000ms")
    settings = InputSettings(kind="audio", frontend="microwakeword", step=160)
    spec = TensorSpec((1, 98, 40), "int8", 0.101961, -128)
    row = Preparation((spec,), (settings,)).file_row((SOUNDS / "yes_1000ms.wav").read_bytes())
    expected = []
    reference = MicroFrontend()
    for start in range(0, 16_000, 160):
        expected += reference.process_samples(samples[start : start + 160].tobytes()).features
    assert len(expected) == 98 * 40
    assert row == spec.quantize(np.array(expected)).tobytes()


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymicro_features", None)
    with pytest.raises(
        ExtraError, match=r"needs pymicro-features \(.*pymicro_features.*\): pip install .*\[wakewords\]"
    ):
        front_end(InputSettings(frontend="microwakeword", step=160))
