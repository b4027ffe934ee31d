"""Control characters in the names of a model: none reaches a terminal, a log, a drawing or a page."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tflite import BuiltinOperator, TensorType

from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.values.printable import printable, printable_lines
from host_tools.exchange.usb import log_text
from tests.support.programs import AISRV, HOST, run_process

NASTY = "\x1b[31m\x1b]0;taken\x07\x9b2J\b\r\n\x00\x7f\u202e\ufffe"
"""Colors, a title, a cleared screen, an overwritten line, and what XML does not have."""
CONTROLS = {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e", "\ufffe"} - {"\n"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    unit = Quantization.per_tensor(1.0, 0)
    names = [f"{NASTY} {side}" for side in ("in", "out")]
    network = Network(
        tuple(Tensor(name, (1, 64), TensorType.INT8, unit) for name in names),
        (
            NetworkOperator(BuiltinOperator.RELU, (names[0],), (names[1],)),
            NetworkOperator(
                BuiltinOperator.CUSTOM, (names[1],), (names[1],), None, custom_code=f"{NASTY} operator"
            ),
        ),
        (names[0],),
        (names[1],),
        description=NASTY,
    )
    path = tmp_path / "nasty.tflite"
    path.write_bytes(bytes(network))
    return path


def test_names_are_read_as_they_may_be_shown(model: Path) -> None:
    read = read_model(model.read_bytes())
    texts = [read.description, *(t.name for t in read.tensors), read.operators[1].name]
    assert not CONTROLS & set("".join(texts))
    assert all("\N{REPLACEMENT CHARACTER}[31m" in text for text in texts if text)


@pytest.mark.parametrize(
    "command",
    [
        [*AISRV, "model", "plan", "MODEL"],
        [*AISRV, "profile", "MODEL"],
        [*AISRV, "profile", "MODEL", "--format", "json"],
        [*AISRV, "run", "--port", "0", "--until-eof", "--model", "MODEL"],
        [*AISRV, "run", "--port", "0", "--until-eof", "-v", "--model", "MODEL", "--engine", "tflm"],
        [*AISRV, "model", "diff", "MODEL"],
        [*HOST, "--device", "virtual", "load", "MODEL"],
    ],
)
def test_no_control_character_reaches_the_terminal(command: list[str], model: Path) -> None:
    done = run_process([str(model) if word == "MODEL" else word for word in command])
    assert not CONTROLS & set(done.stdout + done.stderr)


def test_the_drawing_of_an_arena_is_valid(model: Path, tmp_path: Path) -> None:
    svg = tmp_path / "arena.svg"
    run_process([*AISRV, "model", "plan", model, "--svg", svg], check=True)
    ET.parse(svg)
    assert not CONTROLS & set(svg.read_text())


def test_the_page_of_a_profile_has_none(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run_process([*AISRV, "profile", model, "--html", page], check=True)
    assert not CONTROLS & set(page.read_text())


def test_a_device_s_log_is_shown_without() -> None:
    assert log_text(b"one\x1b[2J\0two\tthree\n\x9b") == "one\ufffd[2J\ntwo\tthree\n\\x9b"


def test_lengths_and_line_ends_are_kept() -> None:
    assert printable("a\nb\x00c\u00e9") == "a\ufffdb\ufffdc\u00e9"
    assert printable("abcdef", 4) == "abc…"
    assert printable_lines("a\r\nb\tc\r") == "a\nb\tc\ufffd"
