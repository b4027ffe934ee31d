"""Benchmarks run in any checkout: one without its models or packages says so, and the next one runs."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as program
from benchmarks import results
from benchmarks.models_of_others import at_hand
from benchmarks.rows import Row
from tests.support.paths import ROOT
from tests.support.peers import mlperf_tiny, tflite_micro_models
from tests.support.programs import run_process

SOURCES = {mlperf_tiny: mlperf_tiny.VARIABLE, tflite_micro_models: tflite_micro_models.VARIABLE}
"""Modules with models that the project does not ship, and the variables that name their folders."""


def benchmark(monkeypatch: pytest.MonkeyPatch, name: str, *errors: BaseException) -> None:
    """Make a benchmark, which yields a row, and then fails or ends."""

    def run() -> Iterator[Row]:
        yield Row(name, 1, "s")
        for error in errors:
            raise error

    module = ModuleType(f"benchmarks.{name}")
    module.__dict__["run"] = run
    monkeypatch.setitem(sys.modules, f"benchmarks.{name}", module)
    monkeypatch.setattr(program, "BENCHMARKS", (*program.BENCHMARKS, name))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (pytest.skip.Exception("no models"), "left out: no models"),
        (
            ModuleNotFoundError("No module named 'cv2.gapi'", name="cv2.gapi"),
            "left out: cv2.gapi is not installed; `make bench` installs what benchmarks need",
        ),
    ],
    ids=["models", "package"],
)
def test_one_without_what_it_needs_says_so_and_the_next_one_runs(
    error: BaseException,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmark(monkeypatch, "first", error)
    benchmark(monkeypatch, "second")
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results.Watch, "others", lambda _self: 0.0)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "first", "second"])
    program.main()
    row = f"{'first':<65} {1:>12.2f} s"
    assert capsys.readouterr().out.splitlines() == [
        "== first",
        row,
        told,
        "== second",
        row.replace("first ", "second"),
        f"written to {tmp_path / 'second.json'}; `make reference` makes the page of it",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["second.json"]


def test_a_module_of_ours_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark(monkeypatch, "first", ModuleNotFoundError("no", name="aisrv.gone"))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "first"])
    with pytest.raises(ModuleNotFoundError):
        program.main()


@pytest.mark.parametrize(("source", "variable"), SOURCES.items(), ids=list(SOURCES.values()))
def test_models_that_are_missing_are_named_with_the_variable_of_their_folder(
    source: ModuleType, variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "/nowhere")
    names = source.NAMES
    assert at_hand(source, *names) == {}
    lines = capsys.readouterr().err.splitlines()
    endings = [line.partition("/nowhere: ")[2] for line in lines if line.startswith("left out: ")]
    assert endings == [f"no {name}.tflite; set {variable}" for name in names]


def test_benchmarks_ask_for_models_of_others_by_what_goes_on_without_them() -> None:
    """A benchmark takes names from these modules, and hands them to `at_hand`; nothing else of theirs."""
    modules = {each.__name__.rpartition(".")[2] for each in SOURCES}
    used = {
        f"{path.name}: {node.value.id}.{node.attr}"
        for path in (ROOT / "benchmarks").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    }
    assert {each for each in used if not each.endswith(".NAMES")} == set()


def test_commands_in_the_texts_of_benchmarks_run_them() -> None:
    """`python -m benchmarks.NAME` needs a module that runs by itself."""
    for name in program.BENCHMARKS:
        text = (ROOT / f"benchmarks/{name}.py").read_text(encoding="utf-8")
        assert f"-m benchmarks.{name}" not in text or 'if __name__ == "__main__":' in text, name


def test_without_the_packages_of_tests_benchmarks_say_what_installs_them() -> None:
    """As in an environment of `make demo`."""
    code = (
        "import runpy, sys; sys.modules['pytest'] = None; runpy.run_module('benchmarks', run_name='__main__')"
    )
    done = run_process([sys.executable, "-c", code], cwd=ROOT)
    assert done.stderr == "pytest is not installed; `make bench` installs what benchmarks need\n"
    assert done.returncode == 1


def test_an_unknown_benchmark_is_told_before_any_runs() -> None:
    done = run_process([sys.executable, "-m", "benchmarks", "starting", "strating"], cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("there is no benchmark 'strating'; there are: starting, ")
