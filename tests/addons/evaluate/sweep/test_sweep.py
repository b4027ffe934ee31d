"""Sweeps: few evaluations for many cells, times of the profile, fit by hand, the smallest by its rules."""

import os
import signal
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.running.local_run import FIRST_ROWS, LocalRun
from aisrv.addons.evaluate.sweep import accuracy
from aisrv.addons.evaluate.sweep.accuracy import OnCount
from aisrv.addons.evaluate.sweep.folder import SweepFolder, verify_sweep
from aisrv.addons.evaluate.sweep.settings import load_sweep
from aisrv.addons.evaluate.sweep.sweep import SweepResult, run_sweep
from aisrv.addons.predict.profile import Configuration, profile_model
from aisrv.inference.timings import DeviceModel, Memory
from aisrv.model.reader import read_model
from aisrv.protocol.memory_map import ModelMemory

MODEL = digits.model_bytes()


@pytest.fixture(autouse=True)
def models(tmp_path: Path) -> None:
    """Write the digits' network, and another one, of which a weight is changed."""
    weights = max((bytes(each.data or b"") for each in read_model(MODEL).tensors), key=len)
    place = MODEL.index(weights) + 5
    changed = MODEL[:place] + bytes([MODEL[place] ^ 0x40]) + MODEL[place + 1 :]
    (tmp_path / "digits.tflite").write_bytes(MODEL)
    (tmp_path / "changed.tflite").write_bytes(changed)


def sweep(folder: Path, text: str, on_count: OnCount = lambda _done, _total, _wrong: None) -> SweepResult:
    path = folder / "sweep.toml"
    path.write_text(f"models = ['digits.tflite']\n{text}" if "models" not in text else text)
    return run_sweep(load_sweep(path), 1, lambda _name: on_count)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[LocalRun]:
    """Collect the runs that engine processes do."""
    found: list[LocalRun] = []

    class Counted(LocalRun):
        async def run(self) -> None:
            found.append(self)
            await super().run()

    monkeypatch.setattr(accuracy, "LocalRun", Counted)
    return found


def test_a_sweep_goes_on_with_what_its_folder_has(tmp_path: Path, runs: list[LocalRun]) -> None:
    folder = SweepFolder(tmp_path / "kept")
    path = tmp_path / "sweep.toml"

    def swept(clocks: str, wanted: float) -> SweepResult:
        path.write_text(
            f"models = ['digits.tflite']\nboards = ['single']\n[axes]\nclock = {clocks}\n"
            f"[data]\npath = 'digits'\n[want]\naccuracy = {wanted}\n"
        )
        return run_sweep(load_sweep(path), 1, folder=folder)

    first = swept("[600]", 0.99)
    again = swept("[600, 800]", 0.99)
    assert len(runs) == 1
    assert (len(first.cells), len(again.cells)) == (1, 2)
    assert again.models[0].accuracy == first.models[0].accuracy
    swept("[600]", 0.9)  # which another number of examples may answer
    assert len(runs) == 2


def test_a_damaged_accuracy_is_measured_again(
    tmp_path: Path, runs: list[LocalRun], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        "models = ['digits.tflite', 'changed.tflite']\nboards = ['single']\n"
        "[data]\npath = 'digits'\n[want]\naccuracy = 0.99\n"
    )

    def swept() -> list[object]:
        folder = SweepFolder(tmp_path / "kept")
        return [each.accuracy for each in run_sweep(load_sweep(path), 1, folder=folder).models]

    first = swept()
    kept = sorted((tmp_path / "kept" / "accuracies").glob("*.json"))
    content = kept[0].read_bytes()
    kept[0].write_bytes(content.replace(b'"failed": 0', b'"failed": 1'))
    kept[1].with_suffix(".sha256").unlink()
    assert verify_sweep(tmp_path / "kept")[:2] == [
        f"{kept[0]} is not as it was written",
        f"{kept[1]} has no hash",
    ]
    assert swept() == first
    assert len(runs) == 4
    # In the order of the models.
    (said,) = [each.getMessage() for each in caplog.records]
    assert said in {
        f"{kept[0]} is not as it was written, and 1 more: they are made again",
        f"{kept[1]} has no hash, and 1 more: they are made again",
    }
    assert kept[0].read_bytes() == content
    assert swept() == first
    assert len(runs) == 4


def test_330_cells_take_2_evaluations(tmp_path: Path, runs: list[LocalRun]) -> None:
    found = sweep(
        tmp_path,
        """
        models = ["digits.tflite", "changed.tflite", { path = "digits.tflite", name = "again" }]
        [axes]
        clock = [600, 700, 800]
        threads = [1, 2, 3, 4, 5]
        [data]
        path = "digits"
        [want]
        rate = 20
        accuracy = 0.99
        sure = false
        """,
    )
    assert len(runs) == 2
    assert len(found.cells) == 3 * 11 * 3 * 5
    first, other, again = (each.accuracy for each in found.models)
    assert first is not None
    assert other is not None
    assert first == again
    assert (first.examples, first.is_decided) == (397, False)
    assert first.metric.value == 394 / 397
    assert other.metric != first.metric
    assert [round(each, 3) for each in first.metric[1:] if each] == [0.978, 0.997]

    # The smallest by its rules: bytes, clock, threads, latency, name.
    meeting = [cell for cell in found.cells if cell.total and cell.rate(sure=False) >= 20 and cell.model != 1]
    fewest = min(cell.bytes for cell in meeting)
    assert found.smallest is not None
    smallest = found.cells[found.smallest]
    assert (smallest.board, smallest.bytes, smallest.clock_mhz, smallest.threads) == (
        "director",
        65536,
        600,
        1,
    )
    assert smallest.bytes == fewest
    assert found.models[smallest.model].model.name == "again"  # before digits.tflite
    assert sorted(number for point in found.points for number in point.cells) == list(range(len(found.cells)))


def test_what_is_too_slow_or_fits_nowhere_is_not_evaluated(tmp_path: Path, runs: list[LocalRun]) -> None:
    data = "[data]\npath = 'digits'\n[want]\nrate = 5000\naccuracy = 0.9\n"
    slow = sweep(tmp_path, f"boards = ['single']\n{data}")
    low = profile_model(MODEL).total
    best = 1000 / low.in_ms(low.high)
    assert slow.models[0].skipped == f"too slow anywhere: {best:,.0f} a second at best"
    large = sweep(tmp_path, f"boards = ['no-flash']\n{data}[axes]\narena = ['8K']")
    assert large.models[0].skipped.startswith(
        f"fits nowhere: the model needs {len(MODEL):,} bytes of the arena"
    )
    assert slow.smallest is large.smallest is None
    assert runs == []


def test_times_are_those_of_the_profile(tmp_path: Path) -> None:
    found = sweep(tmp_path, "boards = ['single']\n[axes]\nclock = [600, 800]\nthreads = [1, 5]")
    profiled = {
        (each.clock_mhz, each.threads): each.ram for each in profile_model(MODEL, Configuration()).predictions
    }
    assert {(cell.clock_mhz, cell.threads): cell.total for cell in found.cells} == {
        key: total for key, total in profiled.items() if key[0] != 700 and key[1] in (1, 5)
    }


def test_the_memory_of_a_model_is_in_its_time_and_its_bytes(tmp_path: Path) -> None:
    text = "boards = ['single', 'no-flash']\n[axes]\nmodel_memory = ['arena', 'external']\narena = ['64K']"
    cells = {(cell.board, cell.memory): cell for cell in sweep(tmp_path, text).cells}
    inside, outside = (cells["single", memory] for memory in ModelMemory)
    assert inside.bytes == 65536
    assert outside.bytes == 65536 + len(MODEL)
    external = profile_model(MODEL, Configuration(DeviceModel(parameters=Memory.EXTERNAL)))
    assert outside.total == external.total
    assert inside.total == profile_model(MODEL).total
    assert cells["no-flash", ModelMemory.EXT].misfit.endswith(f"0 available, {len(MODEL):,} missing")


def test_an_arena_that_the_tile_does_not_have_does_not_fit(tmp_path: Path) -> None:
    (cell,) = sweep(tmp_path, "boards = ['single']\n[axes]\narena = ['600K']").cells
    assert cell.total is None
    assert cell.misfit == "the arenas on tile 0 need 614400 bytes; the tile has 524288"


def test_a_board_without_the_link_does_not_fit(tmp_path: Path) -> None:
    cells = sweep(tmp_path, "boards = ['single', 'no-flash']\nlink = 'spi'").cells
    assert [cell.misfit for cell in cells] == ["", "the board has no SPI port"]


def test_models_without_accuracy_have_fronts_of_their_own(tmp_path: Path) -> None:
    found = sweep(tmp_path, "models = ['digits.tflite', 'changed.tflite']\nboards = ['single']")
    assert [(point.cells, point.place.value) for point in found.points] == [((0,), "front"), ((1,), "front")]


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    def interrupt(done: int, _total: int, _wrong: int) -> None:
        if done == FIRST_ROWS:
            os.kill(os.getpid(), signal.SIGINT)

    images = np.zeros((200_000, 8, 8, 1), np.int8)
    np.savez(tmp_path / "many.npz", x=images, y=np.zeros(len(images), np.uint8))
    text = "models = ['digits.tflite', 'changed.tflite']\nboards = ['single']\n[data]\npath = 'many.npz'"
    found = sweep(tmp_path, text, interrupt)
    assert found.interrupted
    first = found.models[0].accuracy
    assert first is not None
    assert first.is_cut
    assert 0 < first.examples < len(images)
    assert found.models[1].skipped == "interrupted"
    assert len(found.cells) == 2


def test_time_that_is_up_ends_it(tmp_path: Path, runs: list[LocalRun]) -> None:
    found = sweep(tmp_path, "[data]\npath = 'digits'\n[stop]\nminutes = 0.0000001")
    assert found.late
    assert found.models[0].skipped == "time was up"
    assert runs == []


def test_data_that_do_not_fit_a_model_are_found_before_anything_runs(
    tmp_path: Path, runs: list[LocalRun]
) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros((3, 9, 9, 1), np.int8), y=np.zeros(3, np.uint8))
    with pytest.raises(EvaluateError, match=r"^changed.tflite: examples have the shape \[9, 9, 1\]"):
        sweep(tmp_path, "models = ['changed.tflite']\n[data]\npath = 'other.npz'")
    assert runs == []


def test_a_model_that_the_engine_refuses_is_skipped_unless_all_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "choosy_engine.py").write_text(
        "from hashlib import sha256\n"
        "from aisrv.inference.errors import ModelError\n"
        "from aisrv.addons.kernels.interpreter import KernelsInterpreter\n"
        "class Choosy(KernelsInterpreter):\n"
        "    def load(self, model, arena_bytes, /):\n"
        f"        if sha256(model).hexdigest() != {sha256(MODEL).hexdigest()!r}:\n"
        "            raise ModelError('too odd')\n"
        "        return super().load(model, arena_bytes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    data = "boards = ['single']\n[data]\npath = 'digits'\nlimit = 10\nengine = 'choosy_engine:Choosy'"
    found = sweep(tmp_path, f"models = ['changed.tflite', 'digits.tflite']\n{data}")
    assert found.models[0].skipped.endswith("too odd")
    assert found.models[1].accuracy is not None
    assert [point.cells for point in found.points] == [(1,)]
    with pytest.raises(EvaluateError, match="too odd"):
        sweep(tmp_path, f"models = ['changed.tflite']\n{data}")
