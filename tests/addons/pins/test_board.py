"""What a board has on its pins, as a part of it."""

import dataclasses
from pathlib import Path

import pytest

from aisrv.addons.pins.board import Pins, recorded
from aisrv.addons.pins.specs import PinSpec
from aisrv.board import Board, BoardFileError
from aisrv.board.toml_file import parse_board
from aisrv.cli.boards import board_values
from aisrv.cli.options.board import BoardOptions, make_board

STIMULUS = '[[pins]]\nport = "1A"\ntile = 1\nstimulus = "noise.csv"\n'
PINS = Pins(pins=(PinSpec(port="1A", tile=1, stimulus=Path("noise.csv")),))


def test_boards_with_the_same_on_their_pins_are_equal_wherever_they_are_written() -> None:
    one, other = parse_board(STIMULUS, "one.toml"), parse_board(STIMULUS, "other.toml")
    assert one == other == Board(spi=None, parts=(PINS,))
    assert hash(one) == hash(other)
    assert one != recorded(one, Path("pins.vcd"))


def test_empty_arrays_are_no_part() -> None:
    assert parse_board("pins = []\nperipherals = []\n").parts == ()


@pytest.mark.parametrize("key", ["file", "recording"])
def test_a_board_file_sets_nothing_else_of_it(key: str) -> None:
    with pytest.raises(BoardFileError, match=f"^board.toml:1: {key}: "):
        parse_board(f'{key} = "board.toml"\n{STIMULUS}')


def test_with_one_tile_pins_are_on_that(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(STIMULUS)
    options = {each.name: None for each in dataclasses.fields(BoardOptions)}
    pins = make_board(BoardOptions(**options | {"name": str(file), "tiles": 1})).part(Pins)  # type: ignore[arg-type]
    assert pins is not None
    assert [pin.tile for pin in pins.pins] == [0]


def test_json_has_both_arrays_of_every_board() -> None:
    assert [board_values(Board())[name] for name in ("peripherals", "pins")] == [(), ()]
    assert [board_values(Board(parts=(PINS,)))[name] for name in ("peripherals", "pins")] == [(), PINS.pins]


def test_a_recording_can_be_left_out() -> None:
    assert recorded(Board(), None) == Board()
    assert recorded(recorded(Board(), Path("pins.vcd")), None).part(Pins) == Pins()
