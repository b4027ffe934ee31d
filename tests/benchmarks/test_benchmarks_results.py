"""Files of what benchmarks found: each has one, written whole or not at all, and on an idle machine alone."""

import ast
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as program
from benchmarks import results
from benchmarks.results import MOST_OTHERS, NOT_RUN, Result, Watch, path_of, read, write
from benchmarks.rows import Row
from tests.support.paths import ROOT

FILES = sorted((ROOT / "benchmarks/results").glob("*.json"))
RESULT = Result("a machine", "2026-11-28", "0123456789", "", (Row("a: b, c", 1.5, "ms"), Row("d", 2.0, "")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path


def modules_with_a_run() -> set[str]:
    """The modules of benchmarks that measure: they have a function `run`."""
    return {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "run"
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
    }


def test_each_benchmark_has_a_file_or_a_reason() -> None:
    assert sorted([*(path.stem for path in FILES), *NOT_RUN]) == sorted(modules_with_a_run())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_as_it_is_written(path: Path, folder: Path) -> None:
    result = read_from(path)
    assert result.rows
    assert len({(row.name, row.unit) for row in result.rows}) == len(result.rows)
    assert write(path.stem, result).read_bytes() == path.read_bytes()


def read_from(path: Path) -> Result:
    path_of(path.stem).write_bytes(path.read_bytes())
    return read(path.stem)


def test_what_is_written_is_read(folder: Path) -> None:
    write("sample", RESULT)
    assert read("sample") == RESULT
    assert (folder / "sample.json").read_text().splitlines()[5:8] == [
        ' "rows": [',
        '  ["a: b, c", 1.5, "ms"],',
        '  ["d", 2.0, ""]',
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"machine": "a"}', '{"machine": 1}'])
def test_a_file_that_is_none_is_named(text: str, folder: Path) -> None:
    (folder / "sample.json").write_text(text)
    with pytest.raises(ValueError, match=r"sample\.json: "):
        read("sample")


def benchmark(monkeypatch: pytest.MonkeyPatch, *errors: BaseException) -> None:
    """Make the benchmark `sample`, which yields a row, and then fails or ends."""

    def run() -> Iterator[Row]:
        yield Row("new", 1, "s")
        for error in errors:
            raise error

    module = ModuleType("benchmarks.sample")
    module.__dict__["run"] = run
    monkeypatch.setitem(sys.modules, "benchmarks.sample", module)
    monkeypatch.setattr(program, "BENCHMARKS", ("sample",))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "sample"])


def others(monkeypatch: pytest.MonkeyPatch, share: float | None) -> None:
    monkeypatch.setattr(Watch, "others", lambda _self: share)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, ""),
        (0.0, "other programs took 0% of the processors"),
        (MOST_OTHERS, "other programs took 10% of the processors"),
    ],
)
def test_a_benchmark_writes_its_file(
    share: float | None, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark(monkeypatch)
    others(monkeypatch, share)
    program.main()
    assert (read("sample").rows, read("sample").beside) == ((Row("new", 1.0, "s"),), said)


def test_nothing_is_kept_of_a_busy_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark(monkeypatch)
    others(monkeypatch, 0.5)
    write("sample", RESULT)
    program.main()
    assert read("sample") == RESULT
    assert capsys.readouterr().out.endswith("not kept: other programs took 50% of the processors meanwhile\n")


@pytest.mark.parametrize("error", [pytest.skip.Exception("none"), ModuleNotFoundError("none", name="none")])
def test_half_a_benchmark_leaves_the_file_as_it_is(
    error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark(monkeypatch, error)
    others(monkeypatch, 0.0)
    write("sample", RESULT)
    program.main()
    assert read("sample") == RESULT


@pytest.mark.skipif(not results.CPU_TIMES.exists(), reason="the system does not tell what its processors did")
def test_own_work_is_not_that_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processors one works all the time for this process, and the other half of it for others."""
    ticks = os.sysconf("SC_CLK_TCK")
    times = tmp_path / "stat"
    clock = iter((0.0, 10.0))
    own = iter((5.0, 15.0))
    monkeypatch.setattr(results, "CPU_TIMES", times)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(results, "_own_seconds", lambda: next(own))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    times.write_text("cpu  0 0 0 0 0 0 0 0\n")
    watch = Watch()
    times.write_text(f"cpu  {9 * ticks} {ticks} {3 * ticks} 7 7 {ticks} {ticks} 0\n")
    assert watch.others() == pytest.approx(0.25)
