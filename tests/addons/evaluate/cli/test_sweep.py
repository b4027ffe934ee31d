"""`aisrv sweep` as a user calls it: text, JSON, the report, exit codes."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisrv import digits
from aisrv.cli.main import main

FILE = """
models = ["digits.tflite"]
boards = ["single", "director"]
[axes]
clock = [600, 800]
[data]
path = "digits"
[want]
rate = 20
accuracy = 0.9
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits.tflite").write_bytes(digits.model_bytes())


def sweep(text: str, *words: str) -> Result:
    Path("sweep.toml").write_text(text)
    return CliRunner().invoke(main, ["sweep", "sweep.toml", "--processes", "1", *words])


class Page(HTMLParser):
    """Tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onclick"} & {name for name, _ in attrs}


def test_the_smallest_board_as_text_json_and_html() -> None:
    done = sweep(FILE, "--html", "page.html")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "4 of 4 cells, 4 fit"
    assert re.fullmatch(r"digits.tflite: .* % \(.* to .*\) of 397 examples, stopped at \d00", lines[1])
    assert re.fullmatch(
        r"the smallest board that does 20 a second at 90 %: director, engine 0 at 600 MHz, 1 thread "
        r"\(2,416 a second, [\d.]+ %, at least [\d.]+\)",
        lines[-2],
    )
    assert lines[-1] == "a run takes 0.414 ms (0.344 to 0.486); 65,536 bytes, model in the arena"

    page, text = Page(), Path("page.html").read_text()
    page.feed(text)
    assert "script" not in page.tags
    assert page.tags.count("circle") == 5  # four points, and a ring around the answer
    assert text.count('<g class="dot') == text.count("</title><line") == 4
    assert lines[-2] in text


def test_json_has_all_cells() -> None:
    done = sweep(FILE, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["format"] == "aisrv-sweep/1"
    assert [(each["board"], each["clock_mhz"], each["meets"]) for each in found["cells"]] == [
        ("single", 600, True),
        ("single", 800, True),
        ("director", 600, True),
        ("director", 800, True),
    ]
    assert found["front"] == [{"cells": [2], "perhaps": True}, {"cells": [3], "perhaps": False}]
    assert found["smallest"] == 2
    assert found["models"][0]["accuracy"]["low"] >= 0.9


def test_none_is_good_enough() -> None:
    done = sweep('models = ["digits.tflite"]\nboards = ["single"]\n[want]\nrate = 5000\n')
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == (
        "the smallest board that does 5,000 a second: none: the fastest is single at 600 MHz, 1 thread, "
        "2,058 a second"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'models = ["digits.tflite"]\nboards = ["singel"]',
            "sweep.toml:2: boards[0]: 'singel' is not one of",
        ),
        ('models = ["nothing.tflite"]', "nothing.tflite: No such file or directory"),
        ('models = ["sweep.toml"]', "sweep.toml: "),
        ('models = ["digits.tflite"]\n[data]\npath = "nowhere"', "nowhere"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(text: str, message: str) -> None:
    done = sweep(text)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_has_an_example_that_runs() -> None:
    shown = CliRunner().invoke(main, ["sweep", "--help"]).stdout
    example = shown.partition("A file:\n")[2].partition("\n\n")[0]
    example = example.replace('"small.tflite", "large.tflite"', '"digits.tflite"').replace(
        "test.npz", "digits"
    )
    assert sweep(example).exit_code == 0
