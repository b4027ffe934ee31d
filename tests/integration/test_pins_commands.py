"""Pins of boards under the commands, in real processes: recordings, drawings, what cannot be written."""

import json
from pathlib import Path

import pytest
from vcd.reader import TokenKind, tokenize

from tests.support.programs import AISRV, refusal, run_process

BOARD = """
[[peripherals]]
name = "key"
kind = "button"
presses = [0.05]
hold = 0.05

[[peripherals]]
name = "red"
kind = "led"
active = "low"

[[pins]]
port = "1A"
to = "key"

[[pins]]
port = "1A"
to = "red"
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "board.toml"
    path.write_text(BOARD)
    return path


def changes(path: Path, name: str) -> list[tuple[int, str]]:
    """Nanoseconds and level of each change of a signal."""
    found, codes, now = [], set(), 0
    with path.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.VAR and token.var.reference == name:
                codes.add(token.var.id_code)
            elif token.kind is TokenKind.CHANGE_TIME:
                now = token.time_change
            elif token.kind is TokenKind.CHANGE_SCALAR and token.scalar_change.id_code in codes:
                found.append((now, token.scalar_change.value))
    return found


def test_exec_records_pins_from_the_start(board: Path, tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    # Two seconds are far longer than the button is pressed after the start; the device starts within them.
    command = [*AISRV, "exec", "--board", board, "--pins-vcd", path, "--", "sleep", "2"]
    run_process(command, check=True)
    seen = changes(path, "X0D00")
    assert [level for _, level in seen] == ["z", "1", "0", "1"]
    pressed, released = (time for time, _ in seen[2:])
    assert pressed >= 50_000_000
    assert released >= 100_000_000


def test_boards_draws_pins_and_prints_them_as_json(board: Path) -> None:
    drawing = run_process([*AISRV, "boards", board], check=True).stdout
    assert drawing.endswith("pins\n  tile 0  1A  key, button\n  tile 0  1A  red, led\n")
    values = json.loads(run_process([*AISRV, "boards", board, "--json"], check=True).stdout)
    assert [pin["to"] for pin in values["pins"]] == ["key", "red"]


def test_a_recording_that_cannot_be_made_is_one_line(board: Path, tmp_path: Path) -> None:
    path = tmp_path / "none" / "pins.vcd"
    done = run_process([*AISRV, "exec", "--board", board, "--pins-vcd", path, "--", "true"])
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert str(path.parent) in done.stderr


def test_a_stimulus_that_is_not_there_is_one_line_with_its_place(board: Path) -> None:
    board.write_text(f'{BOARD}\n[[pins]]\nport = "1B"\nstimulus = "none.vcd"\n')
    code, _, text = refusal("exec", "--board", board, "--", "true")
    assert code == 2
    assert f"{board}:23: pins[2].stimulus: " in text
    assert "No such file" in text
    assert "Traceback" not in text
