"""`aisrv model show`: text, JSON and a drawing; one line for what is no model."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisrv import digits
from aisrv.addons.predict import model_command as command
from aisrv.addons.predict.model_command import engines_to_ask
from aisrv.cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path


@pytest.fixture(autouse=True)
def one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """All engines take long; that all are asked is tested below."""
    monkeypatch.setattr(command, "engines_to_ask", lambda: ["kernels"])


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["model", "show", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text(file: Path) -> None:
    lines = run(file).splitlines()
    assert lines[0] == "digits.tflite: 9,424 bytes, schema version 3"
    assert lines[-2:] == ["Engines", "  kernels: runs it"]


def test_json_and_drawing(file: Path, tmp_path: Path) -> None:
    drawing = tmp_path / "digits.svg"
    answer = json.loads(run(file, "--json", "--svg", drawing))
    assert answer["engines"] == [{"engine": "kernels", "refusal": None}]
    assert answer["ms_low"] < answer["ms"] < answer["ms_high"]
    assert all(each["ms_low"] <= each["ms"] <= each["ms_high"] for each in answer["operators"])
    assert drawing.read_text().startswith("<svg ")


def test_a_drawing_alone_asks_no_engine(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "engines_to_ask", lambda: pytest.fail("asked"))
    assert run(file, "--svg", tmp_path / "digits.svg") == ""


def test_a_board_has_its_clocks(file: Path) -> None:
    answer = json.loads(run(file, "--json", "--board", "app_profiling"))
    assert answer["reference_mhz"] == 175


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--board", "nothing"), 2, "'nothing' is not one of"),
        ((), 1, "no model.tflite: "),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    path = tmp_path / "no model.tflite"
    path.write_bytes(b"nothing")
    result = CliRunner().invoke(main, ["model", "show", str(path), *arguments])
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_all_engines_are_asked() -> None:
    assert {"tflite", "litert", "tflm", "kernels", "kernels:native"} <= set(engines_to_ask())


@pytest.mark.parametrize(
    ("former", "now", "options"),
    [
        ("plan", "plan", ("--json",)),
        ("diff-engines", "diff", ("--engines", "kernels:numpy", "kernels:numpy")),
    ],
)
def test_former_names_of_subcommands_do_the_same(
    former: str, now: str, options: tuple[str, ...], digits_file: Path
) -> None:
    done, expected = (
        CliRunner().invoke(main, [*words, str(digits_file), *options]) for words in ([former], ["model", now])
    )
    assert (done.exit_code, expected.exit_code) == (0, 0)
    assert done.output == expected.output


def test_former_names_are_not_listed() -> None:
    lines = CliRunner().invoke(main, ["--help"]).output.splitlines()
    assert [line for line in lines if line.split()[:1] in (["plan"], ["diff-engines"])] == []
