"""A run's folder with a flipped byte, or of a writer that was killed: noticed, and mended by a run."""

import logging
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aisrv import digits
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.evaluation import evaluate
from aisrv.addons.evaluate.folder.runs import compare_folders, verify
from aisrv.addons.evaluate.request import Request
from aisrv.cli.main import main
from tests.support.amounts import in_ci
from tests.support.programs import run_process

WORDS = ("digits", "--limit", "70", "--shard", "40", "--check", "0", "--processes", "1")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two parts, a report and a wrong picture."""
    folder = tmp_path_factory.mktemp("integrity")
    (folder / "digits.tflite").write_bytes(digits.model_bytes())
    words = ["evaluate", str(folder / "digits.tflite"), *WORDS, "--out", str(folder / "run")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def request_of(original: Path, folder: Path) -> Request:
    model = original.parent / "digits.tflite"
    return Request(model, "digits", limit=70, shard=40, check=0, processes=1, folder=folder)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flips(folder: Path, seed: str, each: int) -> Iterator[tuple[Path, int]]:
    """Flip a bit of some bytes, as many of each file, and put the file back after each."""
    dice = random.Random(seed)
    for path in files_of(folder):
        content = path.read_bytes()
        for place in sorted(dice.sample(range(len(content)), min(each, len(content)))):
            flipped = bytearray(content)
            flipped[place] ^= 1 << dice.randrange(8)
            path.write_bytes(flipped)
            yield path, place
            path.write_bytes(content)


def test_each_file_has_its_hash(run: Path) -> None:
    listed = {line.split()[1] for line in (run / "files.sha256").read_text().splitlines()}
    beside = {f"parts/{path.stem}.parquet" for path in (run / "parts").glob("*.sha256")}
    there = {path.relative_to(run).as_posix() for path in files_of(run) if path.suffix != ".sha256"}
    assert listed | beside == there
    assert not listed & beside
    for folder, name in (
        (run, "files.sha256"),
        *((run / "parts", f"00000{shard}.sha256") for shard in (0, 1)),
    ):
        run_process(["sha256sum", "--check", "--strict", "--quiet", name], cwd=folder, check=True)


def test_a_flipped_byte_anywhere_is_noticed(run: Path) -> None:
    assert verify(run) == []
    for path, place in flips(run, "verify", in_ci(100_000, every_day=4)):
        problems = verify(run)
        assert problems, (path, place)
        assert not any("\n" in each for each in problems)


def test_runs_with_a_flipped_byte_are_compared_alike_or_refused(run: Path) -> None:
    expected = compare_folders(run, run)
    for path, _ in flips(run, "compare", in_ci(500, every_day=3)):
        try:
            found = compare_folders(run, run)
        except EvaluateError:
            continue
        assert found == expected, path


def told(result: dict[str, Any]) -> dict[str, Any]:
    """What is the same of two runs."""
    return {**result, "date": "", "latency": {**result["latency"], "host_ms": ""}}


def test_a_run_with_a_flipped_byte_is_made_again_or_gives_the_equal_result(
    original: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = told(evaluate(request_of(original, run)).result)
    parts = {path.name: path.read_bytes() for path in (run / "parts").iterdir()}
    caplog.set_level(logging.WARNING)
    for path, place in flips(run, "resume", in_ci(25, every_day=1)):
        if in_ci(0, every_day=1) and path.name not in ("plan.json", "000001.parquet", "000000.json"):
            continue
        caplog.clear()
        found = evaluate(request_of(original, run)).result
        assert told(found) == expected, (path, place)
        of_part = path.parent.name in ("parts", "times")
        assert len(caplog.records) == of_part, (path, place)
        assert {each.name: each.read_bytes() for each in (run / "parts").iterdir()} == parts
        # Of what only the command writes, the list has what is there.
        assert verify(run) == []


KILL = """
import os, signal, sys
from pathlib import Path
left, real = int(sys.argv[1]), Path.replace
def replace(self, target):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return real(self, target)
Path.replace = replace
from aisrv.cli.main import main
main(sys.argv[2:])
"""
LONG = pytest.mark.long("a run killed between a part and its hash goes on every day")
WRITES = 12
"""Files of the run that take their names: plan, two parts with times and hashes, result, list, a picture,
report, the list again."""


@pytest.mark.parametrize("writes", [3, *(pytest.param(each, marks=LONG) for each in range(WRITES + 1))])
def test_a_run_that_is_killed_at_any_write_goes_on(writes: int, original: Path, tmp_path: Path) -> None:
    words = ["evaluate", original.parent / "digits.tflite", *WORDS, "--out", "run"]
    killed = run_process([sys.executable, "-c", KILL, str(writes), *words], cwd=tmp_path)
    assert killed.returncode == (0 if writes == WRITES else -signal.SIGKILL), killed.stderr
    done = run_process([sys.executable, "-m", "aisrv", *words], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("it is made again") == (writes in (2, 3, 5, 6))
    for path in (original / "parts").iterdir():
        assert (tmp_path / "run" / "parts" / path.name).read_bytes() == path.read_bytes()
    assert verify(tmp_path / "run") == []
    assert not list((tmp_path / "run").rglob("*.part"))
