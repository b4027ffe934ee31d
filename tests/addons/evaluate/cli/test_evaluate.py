"""`aisrv evaluate`: from model and data to figures, folder, report and exit code."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from aisrv import digits
from aisrv.addons.evaluate.folder.runs import write_run_list
from aisrv.cli.main import main

QUICK = ("--check", "0", "--processes", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("digits.tflite").write_bytes(digits.model_bytes())
    return tmp_path


def evaluate(*words: str) -> Result:
    return CliRunner().invoke(main, ["evaluate", *words])


def result(*words: str) -> dict:  # type: ignore[type-arg]
    done = evaluate("digits.tflite", *words, "--json", *QUICK)
    assert done.exit_code == 0, done.output
    found: dict = json.loads(done.stdout)  # type: ignore[type-arg]
    return found


class Page(HTMLParser):
    """Links and anchors of a page, and whether anything is loaded or run."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "href" and value:
                self.links.add(value)
            if name == "id" and value:
                self.anchors.add(value)
            if name == "src":
                assert value is not None
                assert value.startswith("data:image/png;base64,")


def test_the_digits_with_a_folder_a_report_and_a_device() -> None:
    done = evaluate("digits.tflite", "digits", "--against", "kernels:numpy", "--out", "run", "--top", "1,2")
    assert done.exit_code == 0, done.output
    assert "accuracy         99.24 % (97.80 to 99.74)" in done.output
    assert "32 of them through a virtual device: the same bytes" in done.output
    assert "output 0: equal" in done.output
    found = json.loads(Path("run/result.json").read_text())
    assert [(each["label"], each["predicted"]) for each in found["wrong"]] == [(7, 9), (8, 1), (8, 1)]
    assert found["latency"]["device"]["ms_low"] < found["latency"]["device"]["ms"]
    assert found["metrics"]["top2"]["value"] == pytest.approx(1.0)
    page = Page()
    page.feed(Path("run/report.html").read_text())
    assert "script" not in page.tags
    assert {"#cell-8-1", "#cell-7-9", "#wrong"} <= page.links
    assert {link[1:] for link in page.links} <= page.anchors
    assert sorted(each.name for each in Path("run/wrong").iterdir()) == ["104.png", "146.png", "59.png"]
    assert evaluate("--verify", "run").exit_code == 0


def test_a_run_again_runs_nothing_and_what_is_missing_comes_back() -> None:
    first = result("digits", "--out", "run")
    assert [each["name"] for each in first["parts"]] == ["000000.parquet"]
    part, digest = Path("run/parts/000000.parquet"), Path("run/parts/000000.sha256")
    before = part.read_bytes(), digest.read_bytes()
    times = Path("run/times/000000.json").read_bytes()
    assert result("digits", "--out", "run")["metrics"] == first["metrics"]
    assert Path("run/times/000000.json").read_bytes() == times
    Path("run/parts/000000.parquet").unlink()
    verified = evaluate("--verify", "run")
    assert (verified.exit_code, "000000.parquet is missing" in verified.stderr) == (1, True)
    assert result("digits", "--out", "run")["metrics"] == first["metrics"]
    assert (part.read_bytes(), digest.read_bytes()) == before
    other = evaluate("digits.tflite", "digits", "--out", "run", "--engine", "tflm", *QUICK)
    assert other.exit_code == 2
    assert 'run holds another plan: engine "kernels" there, "tflm" here' in other.stderr


def test_a_damaged_part_is_made_again_which_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    first = result("digits", "--out", "run", "--shard", "100")
    part = Path("run/parts/000001.parquet")
    before = part.read_bytes()
    damaged = bytearray(before)
    damaged[len(damaged) // 3] ^= 1
    part.write_bytes(damaged)
    verified = evaluate("--verify", "run")
    assert (verified.exit_code, verified.stderr) == (1, f"{part} is not as it was written\n")
    refused = evaluate("--compare", "run", "run")
    assert (refused.exit_code, refused.stderr) == (2, f"Error: {part} is not as it was written\n")
    again = result("digits", "--out", "run", "--shard", "100")
    assert [each.getMessage() for each in caplog.records] == [
        f"{part} is not as it was written: it is made again"
    ]
    assert part.read_bytes() == before
    assert {**again, "date": "", "latency": ""} == {**first, "date": "", "latency": ""}
    assert evaluate("--verify", "run").exit_code == 0


def test_a_result_that_is_damaged_or_lacks_something_is_one_line() -> None:
    result("digits", "--out", "run", "--limit", "20")
    path, listed = Path("run/result.json"), Path("run/files.sha256")
    values = json.loads(path.read_text())
    for key in ("plan", "partial", "examples", "metrics", "outputs", "parts"):
        path.write_text(json.dumps({name: each for name, each in values.items() if name != key}))
        damaged = evaluate("--verify", "run")
        assert (damaged.exit_code, damaged.stderr) == (1, "result.json is not as it was written\n")
        write_run_list(Path("run"))
        missing = evaluate("--verify", "run")
        assert missing.exit_code == 2
        assert missing.stderr == f"Error: {path}: Object missing required field `{key}`\n"
        assert evaluate("--compare", "run", "run").stderr == missing.stderr
    path.write_text("[" * 100_000)
    write_run_list(Path("run"))
    assert evaluate("--verify", "run").exit_code == 2
    listed.unlink()
    old = evaluate("--verify", "run")
    assert (old.exit_code, old.stderr.count("files.sha256 is missing"), old.stderr.count("\n")) == (1, 1, 1)
    assert evaluate("--compare", "run", "run").exit_code == 2


def test_labels_weights_and_folders_change_the_result_as_they_should() -> None:
    images = np.array([np.frombuffer(each.image, np.int8) for each in digits.test_images()])
    labels = np.array([each.label for each in digits.test_images()])
    labels[0] = (labels[0] + 1) % 10
    np.savez("wrong.npz", x=images, y=labels)
    found = result("wrong.npz", "--no-parts")
    assert found["metrics"]["accuracy"]["value"] == 393 / 397
    assert [each["index"] for each in found["wrong"]] == [0, 59, 104, 146]
    swapped = np.where(labels == 3, 5, np.where(labels == 5, 3, labels))
    np.savez("swapped.npz", x=images, y=swapped)
    before, after = np.array(found["confusion"]), np.array(result("swapped.npz", "--no-parts")["confusion"])
    assert np.array_equal(before[[0, 1, 2, 5, 4, 3, 6, 7, 8, 9]], after)


def test_bounds_and_failures_have_their_codes() -> None:
    words = ("digits.tflite", "digits", "--no-parts", *QUICK)
    assert evaluate(*words, "--require", "accuracy>=0.99").exit_code == 0
    refused = evaluate(*words, "--require", "accuracy.low>=0.99")
    assert refused.exit_code == 1
    assert "not met: accuracy.low is 0.978" in refused.stderr
    assert evaluate(*words, "--require", "acuracy>=1").exit_code == 2
    assert evaluate("digits.tflite", "nowhere", *QUICK).exit_code == 2
    assert evaluate("digits.tflite", "digits", "--no-parts", "--on", "usbip:127.0.0.1:1").exit_code == 3


PIXELS = ("--no-parts", "--input", "pixels.toml")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """The last of twelve digits as pictures."""
    from PIL import Image

    for index, digit in enumerate(digits.test_images()[:12]):
        pixels = np.frombuffer(digits.pixels_of(digit.image), np.uint8).reshape(8, 8)
        path = tmp_path / "photos" / str(digit.label) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels * 15).save(path)
    settings = "[inputs.0]\nmean = 0\nstd = 240\n"
    Path("pixels.toml").write_text(settings)
    return path


def test_pictures_and_broken_ones(photos: Path) -> None:
    from PIL import Image

    words = ("digits.tflite", "photos", *PIXELS)
    shown = evaluate(*words, "--show", "--png", "first.png")
    assert shown.exit_code == 0, shown.output
    assert "std = [240.0]" in shown.output
    assert "▀" in shown.output
    with Image.open("first.png") as picture:
        assert picture.size == (8, 8)
    done = evaluate(*words, *QUICK)
    assert done.exit_code == 0, done.output
    assert "accuracy         100.00 %" in done.output
    photos.write_bytes(b"none")
    failed = evaluate(*words, *QUICK)
    assert failed.exit_code == 5
    assert "1 examples failed, at most 0 may" in failed.stderr
    assert "accuracy         91.67 %" in failed.output
    assert evaluate(*words, *QUICK, "--max-failed", "1").exit_code == 0


@pytest.mark.long("data in archives and folders are compared every day")
@pytest.mark.usefixtures("photos")
def test_pictures_in_an_archive(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed: it comes with the extra fleet")
    shutil.make_archive("photos", "zip", tmp_path, "photos")
    packed = evaluate("digits.tflite", f"zip://photos::{tmp_path}/photos.zip", *PIXELS, *QUICK)
    assert packed.exit_code == 0, packed.output
    assert "accuracy         100.00 %" in packed.output


def test_two_runs_beside_each_other() -> None:
    result("digits", "--out", "a")
    result("digits", "--out", "b", "--engine", "kernels:numpy")
    done = evaluate("--compare", "a", "b")
    assert done.exit_code == 0
    assert "their plans differ in: engine" in done.output
    assert "right in both 394, in A only 0, in B only 0, in neither 3" in done.output
    assert "p = 1 (McNemar, exact)" in done.output
    assert json.loads(evaluate("--compare", "a", "b", "--json").output)["pairs"]["both"] == 394


def test_metrics_of_ones_own_and_other_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_metrics.py").write_text(
        "def sure(labels, outputs):\n    return {'sure': float((outputs.max(axis=1) > 100).mean())}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = result("digits", "--no-parts", "--metric", "my_metrics:sure")
    assert found["metrics"]["sure"]["low"] is None
    assert 0.8 < found["metrics"]["sure"]["value"] <= 1
    images = np.array([np.frombuffer(each.image, np.int8) for each in digits.test_images()])
    np.savez("eights.npz", x=images, y=[int(each.label == 8) for each in digits.test_images()])
    found = result("eights.npz", "--no-parts", "--task", "anomaly", "--score", "8", "--limit", "200")
    assert found["examples"] == 200
    assert found["metrics"]["auc"]["value"] > 0.99


@pytest.mark.long("layers are compared every day; this is the whole command")
def test_layers_name_where_engines_part() -> None:
    found = result("digits", "--no-parts", "--limit", "3", "--against", "tflm", "--layers")
    layers = found["against"]["layers"]
    assert layers["examples"] == 3
    assert [each["differing"] for each in layers["tensors"]] == [0] * len(layers["tensors"])
    assert len(layers["tensors"]) >= 5


@pytest.mark.long("devices answer a run's examples every day; this is the whole command")
def test_on_a_device_the_answers_are_the_same() -> None:
    found = result("digits", "--no-parts", "--limit", "150", "--against", "kernels", "--devices", "2")
    assert found["against"]["differing"] == 0
    assert (found["examples"], found["failed"]) == (150, [])


def test_several_devices_are_virtual_and_of_this_machine() -> None:
    words = ("digits.tflite", "digits", "--no-parts", "--devices", "2")
    refused = evaluate(*words, "--on", "usb")
    assert (refused.exit_code, "--devices is for virtual devices" in refused.stderr) == (2, True)
    missing = evaluate(*words, "--check", "0", "--on", "virtual:nowhere.toml")
    assert (missing.exit_code, missing.stderr.count("nowhere.toml: No such file")) == (3, 1)
    refused = evaluate(*words, "--dask", "tcp://127.0.0.1:1")
    assert (refused.exit_code, "leave one out" in refused.stderr) == (2, True)


@pytest.mark.long("runs and sweeps are stopped every day; this is the whole command")
def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    (tmp_path / "slow_engine.py").write_text(
        "import os, signal, time\n"
        "from aisrv.addons.kernels.interpreter import KernelsInterpreter\n"
        "class Slow(KernelsInterpreter):\n"
        "    def invoke(self):\n"
        "        time.sleep(0.02)\n"
        "        super().invoke()\n"
    )
    script = (
        "import os, signal, sys\n"
        "from aisrv.addons.evaluate.running import answers\n"
        "real = answers.Answers.put\n"
        "def put(self, first, outputs, times):\n"
        "    real(self, first, outputs, times)\n"
        "    answers.Answers.put = real\n"  # the second Ctrl-C would end the run at once
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "answers.Answers.put = put\n"
        "from aisrv.cli.main import main\n"
        "main()\n"
    )
    words = ["evaluate", "digits.tflite", "digits", "--engine", "slow_engine:Slow", "--out", "run", *QUICK]
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 130, done.stderr
    counted = re.search(r"interrupted: (\d+) of 397", done.stderr)
    assert counted is not None
    assert 16 <= int(counted[1]) < 397
    assert "accuracy" in done.stdout
    assert json.loads(Path("run/result.json").read_text())["partial"] is True
