"""Runs in engine processes: all answers, whoever dies on the way, and what ends a run early."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trio
from PIL import Image

from aisrv import digits
from aisrv.addons.evaluate.data.arrays import digits_data, read_npz
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.files import read_folder
from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.preparation import Preparation, input_settings
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.local_run import EngineError, LocalRun, LocalSettings
from aisrv.model.reader import read_model
from aisrv.protocol.engine_kind import EngineKind
from host_tools.tensors.tensor_spec import TensorSpec
from tests.support.amounts import some

MODEL = digits.model_bytes()
PIXELS = InputSettings(kind="image", mean=(0.0,), std=(255.0,))

FRAGILE = '''
import ctypes, time
from aisrv.addons.kernels.interpreter import KernelsInterpreter

class Fragile(KernelsInterpreter):
    """Dies of a second byte of 1, hangs on one of 2, refuses one of 3."""

    def set_input(self, number, data):
        self.first = data[1]
        super().set_input(number, data)

    def invoke(self):
        if self.first == 1:
            ctypes.string_at(0)
        if self.first == 2:
            time.sleep(60)
        if self.first == 3:
            raise RuntimeError("three")
        super().invoke()
'''


def run(
    data: DataSet,
    kind: str = "kernels:native",
    given: dict[int, InputSettings] | None = None,
    processes: int = 1,
    on_batch: Callable[[LocalRun, Answers], None] = lambda _run, _answers: None,
    answers: Answers | None = None,
    seconds: float = 60.0,
) -> Answers:
    model = read_model(MODEL)
    specs = tuple(map(TensorSpec.of, model.input_tensors))
    preparation = Preparation(specs, input_settings(model, specs, data, given or {}))
    found = answers or Answers(len(data), 10, 100, files=bool(data.files))
    settings = LocalSettings(EngineKind.parse(kind), MODEL, processes, seconds)
    local = LocalRun(settings, data, preparation, found, lambda _first, _end: on_batch(local, found))
    trio.run(local.run)
    return found


def right(answers: Answers, data: DataSet) -> int:
    return int((answers.outputs.view(np.int8).argmax(axis=1) == np.asarray(data.labels)).sum())


@pytest.mark.in_full
@pytest.mark.parametrize("kind", some(("kernels:native", "tflite", "litert", "tflm"), every_day=1))
def test_all_digits_are_as_published(kind: str) -> None:
    data = digits_data("digits:all")
    answers = run(data, kind, processes=2)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if "aisrv.inference" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert answers.done.all()
    assert right(answers, data) == 1794
    assert int((answers.outputs[:397].view(np.int8).argmax(axis=1) == data.labels[:397]).sum()) == 394
    assert sum(map(int, answers.host_times().values().values())) == 1797
    p50 = answers.host_times().percentile_ms(50)
    assert p50 is not None
    assert p50 > 0


def test_only_what_is_missing_runs() -> None:
    data = digits_data("digits")
    answers = Answers(len(data), 10, 100)
    answers.done[:] = True
    answers.done[[0, 5, 6, 396]] = False
    run(data, answers=answers)
    assert np.flatnonzero(answers.outputs.any(axis=1)).tolist() == [0, 5, 6, 396]
    assert answers.done.all()


def test_large_rows_run_from_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisrv.addons.evaluate.running.local_run.MAPPED_ROW_BYTES", 64)
    shipped = digits_data("digits")
    np.savez(tmp_path / "data.npz", x=shipped.arrays[0], y=shipped.labels)
    before = (tmp_path / "data.npz").read_bytes()
    data = read_npz(tmp_path / "data.npz")
    assert data.mapped is not None
    assert right(run(data), data) == 394
    assert (tmp_path / "data.npz").read_bytes() == before


def folder_of_digits(root: Path, count: int) -> DataSet:
    for index, digit in enumerate(digits.test_images()[:count]):
        folder = root / str(digit.label)
        folder.mkdir(exist_ok=True, parents=True)
        pixels = np.frombuffer(digits.pixels_of(digit.image), np.uint8).reshape(8, 8)
        levels = np.minimum(pixels.astype(int) * 16, 255).astype(np.uint8)
        Image.fromarray(levels).save(folder / f"{index:03}.png")
    return read_folder(root)


def test_pictures_that_kill_hang_refuse_or_are_none_fail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder_of_digits(tmp_path / "data", 60)
    kills, hangs, refused, none, deadly = (
        Path(os.fsdecode(data.files[index])) for index in (3, 40, 41, 50, 55)
    )
    for path, level in ((kills, 137), (hangs, 138), (refused, 139)):  # bytes 1, 2 and 3 of the tensor
        with Image.open(path) as image:
            image.putpixel((1, 0), level)
            image.save(path)
    none.write_bytes(b"no picture")
    deadly.write_bytes(b"deadly")
    (tmp_path / "fragile_engine.py").write_text(FRAGILE)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'aisrv.addons.evaluate.running.reader_process' in sys.orig_argv:\n"
        "    import aisrv.addons.evaluate.inputs.pictures as pictures\n"
        "    import aisrv.addons.evaluate.inputs.preparation as made\n"
        "    real = pictures.decoded\n"
        "    def deadly(data, *more):\n"
        "        return os.kill(os.getpid(), 9) if data == b'deadly' else real(data, *more)\n"
        "    made.decoded = deadly\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    answers = run(data, "fragile_engine:Fragile", {0: PIXELS}, seconds=0.3)
    assert {index: reason.partition(" (")[0] for index, reason in answers.failed.items()} == {
        3: "running the model: the interpreter was killed by SIGSEGV",
        40: "running the model: the interpreter took more than 0.3 s and was stopped",
        41: "running the model: RuntimeError: three",
        50: "not a picture that can be read: none of BMP, GIF, JPEG, PNG, PPM, TIFF, WEBP",
        55: "the reader was killed by SIGKILL",
    }
    assert answers.done.all()
    assert not answers.outputs[list(answers.failed)].any()
    others = np.setdiff1d(np.arange(60), list(answers.failed))
    labels = np.array([int(label) for label in data.labels])
    found = answers.outputs.view(np.int8).argmax(axis=1)
    assert (found[others] == labels[others]).all()
    assert len({bytes(each) for each in answers.content}) == 60
    assert answers.attempts[0] > 1


def test_a_run_that_is_stopped_keeps_what_is_done() -> None:
    data = digits_data("digits:all")
    stopped: list[bool] = []

    def stop(local: LocalRun, answers: Answers) -> None:
        if answers.done.sum() >= 16 and not stopped:
            stopped.append(True)
            local.stop()

    answers = run(data, on_batch=stop)
    assert 16 <= answers.done.sum() < 1797
    expected = run(data).outputs
    assert np.array_equal(answers.outputs[answers.done], expected[answers.done])


def test_an_engine_that_does_not_take_the_model() -> None:
    model = bytearray(MODEL)
    settings = LocalSettings(EngineKind.parse("kernels:native"), bytes(model[:3000]), 1)
    data = digits_data("digits")
    specs = tuple(map(TensorSpec.of, read_model(MODEL).input_tensors))
    preparation = Preparation(specs, (InputSettings(kind="raw"),))
    local = LocalRun(settings, data, preparation, Answers(397, 10, 100), lambda _first, _end: None)
    with pytest.raises(EngineError, match=r"^kernels:native: "):
        trio.run(local.run)


def test_arrays_that_do_not_fit() -> None:
    data = DataSet("x", "npz", np.zeros(3, int), "", (np.zeros((3, 5)),))
    with pytest.raises(InputError, match=r"examples have the shape \[5\], the tensor is int8\[1, 8, 8, 1\]"):
        run(data)
