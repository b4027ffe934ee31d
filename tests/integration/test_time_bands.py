"""No command shows a predicted time without between what it is expected to be.

The commands are those of the product: one that comes new has to be put in a table here.
"""

import csv
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from aisrv import digits
from aisrv.addons.predict import model_command
from aisrv.cli.main import main as aisrv_main
from flash_server.cli import main as flash_main
from host_tools.cli import main as host_main
from tests.support.command_calls import CommandCalls
from tests.support.main_commands import MAINS
from tests.support.programs import AISRV, HOST, run_process, running

TIMED: Final = {
    "aisrv demo": (["--count", "1"], ["--count", "1", "--json"]),
    "aisrv profile": (["MODEL"], ["MODEL", "--json"], ["MODEL", "MODEL"], ["MODEL", "MODEL", "--json"]),
    "aisrv evaluate": (["MODEL", "digits", "--limit", "3", "--check", "0", "--out", "OUT"],),
    "aisrv model": (["show", "MODEL"],),
    "aisrv sweep": (["SWEEP"], ["SWEEP", "--json"]),
    "aisrv-host diff": (["DEVICE", "virtual", "--model", "MODEL"],),
    "aisrv-host profile": ([], ["--json"]),
    "aisrv-host timings": ([], ["--json"], ["--model", "MODEL"]),
}
"""Commands that show what a device takes, and how they are called here."""
UNTIMED: Final = frozenset(
    f"aisrv {name}"
    for name in (
        *(
            "attach",
            "backends",
            "boards",
            "completion",
            "doctor",
            "exec",
            "firmware",
            "fleet",
            "graph",
        ),
        *("replay", "run", "trace", "wireshark"),
    )
) | {
    f"aisrv-host {name}"
    for name in (
        *("acquire", "bench", "frame", "gpio", "i2c", "infer", "info", "jacdac", "list", "load", "log"),
        *("raw", "read", "reset", "stream", "upgrade", "web", "write"),
    )
}
"""Commands that show none, or those of this machine alone."""

_NUMBER: Final = r"[\d,]+(?:\.\d+)?"
_BARE: Final = re.compile(rf"{_NUMBER} (?:ms|µs)(?: a run)?+(?! \({_NUMBER} to {_NUMBER})\b")
_BAND: Final = re.compile(rf"{_NUMBER}(?: to |-){_NUMBER}")
_NO_PREDICTIONS: Final = ("Here ", "This host took ", "on this machine: ", "A tick is ")
_TIME_KEY: Final = re.compile(r"(?:^|_)(?:ms|us|ticks|microseconds)(?:_|$)")
_BAND_KEY: Final = re.compile(r"low|high|band")
_MEASURED: Final = ("host", "published")
"""Values of JSON that were measured."""


def commands(name: str, program: click.Group) -> list[str]:
    """All commands of a program."""
    return [f"{name} {each}" for each in program.list_commands(click.Context(program))]


def test_every_command_is_known() -> None:
    found = {*commands("aisrv", aisrv_main), *commands("aisrv-host", host_main)}
    assert found == {*TIMED, *UNTIMED}
    assert not [each for each in commands("aisrv-flash", flash_main) if "profile" in each or "timing" in each]


def bare_times(text: str) -> list[str]:
    """Lines of a text with a time that has no band."""
    found, in_table = [], False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(_NO_PREDICTIONS) and _BARE.search(line):
            found.append(line)
        # A table of times has a rule below its headings, and ends with a blank line.
        if "───" in line:
            head = " ".join(lines[max(0, number - 3) : number])
            in_table = bool(re.search(r"\b(?:ms|µs)\b", head))
        elif not line.strip():
            in_table = False
        elif in_table and re.search(r"\d+\.\d", line) and not _BAND.search(line):
            found.append(line)
    return found


def bare_values(value: object) -> list[object]:
    """Objects of JSON that have a time and no band."""
    if isinstance(value, list):
        return [each for one in value for each in bare_values(one)]
    if not isinstance(value, dict):
        return []
    found = [each for key, one in value.items() if key not in _MEASURED for each in bare_values(one)]
    is_timed = any(_TIME_KEY.search(key) and isinstance(one, int | float) for key, one in value.items())
    return [*found, value] if is_timed and not any(map(_BAND_KEY.search, value)) else found


@pytest.fixture(autouse=True)
def one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """`aisrv model show` would start a process for each engine, none of which says a time."""
    monkeypatch.setattr(model_command, "engines_to_ask", lambda: ["kernels"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path


@pytest.fixture(scope="module")
def device(model: Path) -> Iterator[str]:
    board = model.with_suffix(".toml")
    board.write_text("[node]\nreference = 175\n[[engines]]\n")
    with running("--board", str(board), "--model", str(model)) as (_, ready):
        address = ready.split(",")[0]
        run_process([*HOST, "--device", address, "infer", _image(model)], check=True)
        yield address


def _image(model: Path) -> Path:
    path = model.with_suffix(".bin")
    path.write_bytes(digits.test_images()[0].image)
    return path


@pytest.mark.parametrize(
    ("command", "words"), [(command, words) for command, calls in TIMED.items() for words in calls]
)
def test_times_have_bands(command: str, words: list[str], model: Path, device: str, tmp_path: Path) -> None:
    program, name = command.split()
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(f"models = ['{model}']\n[axes]\nclock = [600, 800]\n[want]\nrate = 20\n")
    places = {"MODEL": str(model), "DEVICE": device, "OUT": str(tmp_path / "out"), "SWEEP": str(sweep)}
    start = [name] if program == "aisrv" else ["--device", device, name]
    done = CommandCalls(MAINS[program]).call(*start, *(places.get(word, word) for word in words))
    assert done.exit_code == 0, done.stderr
    if "--json" in words:
        answer = json.loads(done.stdout)
        assert bare_values(answer) == []
        assert _TIME_KEY.search(done.stdout.replace('"', "_")) or "profile" in answer
        assert not bare_times("\n".join(answer.get("profile", [])))
    else:
        assert bare_times(done.stdout) == []
        assert _BAND.search(done.stdout)


def test_a_profile_as_csv_and_html_has_bands(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run_process([*AISRV, "profile", model, model, "--html", page], check=True)
    table = run_process([*AISRV, "profile", model, "--csv"], check=True).stdout
    rows = list(csv.DictReader(table.splitlines()))
    assert all(float(row["low_ms"]) <= float(row["ms"]) <= float(row["high_ms"]) for row in rows)
    cells = re.findall(r"<(td|text|title|p)\b[^>]*>(.*?)</\1>", page.read_text(), re.DOTALL)
    texts = [html.unescape(re.sub(r"<[^>]+>", "", text)) for _, text in cells]
    assert [text for text in texts if _BARE.search(text)] == []
    assert [text for text in texts if re.fullmatch(r"\d+\.\d{3}", text)] == []
    assert any(_BAND.search(text) for text in texts)


@pytest.mark.parametrize(
    "text", ["0.414 ms of it", "One inference takes 7 ms", " ms\n───\n  1  CONV_2D  2.500\n"]
)
def test_a_time_without_a_band_is_found(text: str) -> None:
    assert bare_times(text)
    assert bare_values({"ms": 1.5, "name": "x"})
