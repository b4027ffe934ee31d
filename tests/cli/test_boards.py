"""`aisrv boards`, and the option `--board`."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from aisrv.board import Board, EngineSpec, FlashSpec, SensorSpec, SpiSpec
from aisrv.board.catalog import BOARDS
from aisrv.cli.main import main
from aisrv.cli.options.board import BoardOptions, make_board
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memories import Memory
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Hertz
from flash_server.chip.part import MX25R3235F

KIB = 1024


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["boards", *arguments], env={"COLUMNS": "110"})


def test_it_lists_all_boards_with_what_they_need() -> None:
    result = run()
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.output.splitlines() if line.strip()}
    assert {*BOARDS} < {*rows}
    assert rows["with-flash"][1:9] == ["1", "MX25R6435F", "2", "+", "5", "12", "+", "6"]
    assert rows["chained"][1:9] == ["2", "none", "1", "+", "6", "6", "+", "10"]


def test_it_draws_one() -> None:
    result = run("camera")
    assert result.exit_code == 0
    assert result.output.startswith("camera: a classifier with a camera")
    assert "│ 6 acquire " in result.output


def test_it_draws_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[[engines]]\ntile = 1\n")
    result = run(str(path))
    assert result.exit_code == 0
    assert result.output.startswith(f"{path}\n\n╭─ tile 0")


def test_json_of_all() -> None:
    values = json.loads(run("--json").output)
    assert list(values) == sorted(BOARDS)
    assert values["chained"]["engines"][0]["chain_to"] == 1


def test_json_of_one(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[[engines]]\nboot = "ext"\n[[flash]]\nfile = "chip.bin"\n[usb]\nprotocol = "ioserver"\n')
    values = json.loads(run(str(path), "--json").output)
    assert (values["protocol"], values["engines"][0]["boot"]) == ("ioserver", "ext")
    assert values["flashes"][0]["path"] == str(tmp_path / "chip.bin")
    assert values["demand"]["tiles"][1] == {
        "cores": ["XUD", "usb_ep0", "usb_data"],
        "cores_of": 8,
        "channel_ends": 1,
        "channel_ends_of": 32,
    }
    assert values["demand"]["channels"][1] == {
        "tasks": ["usb_data", "aiengine 0"],
        "tiles": [1, 0],
        "carries": "commands",
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "'nothing' is not one of 'app_aisrv', 'app_alpr',"),
        ("missing.toml", "missing.toml: No such file or directory"),
        ("missing.xn", "missing.xn: No such file or directory"),
    ],
)
def test_a_board_that_is_not_there_is_a_usage_error(name: str, message: str) -> None:
    result = run(name)
    assert result.exit_code == 2
    assert message in result.output


# The board that the options of `run`, `exec` and `attach` make.


def made(**options: Any) -> Board:
    return make_board(BoardOptions(**options))


NO_CHIP = "--boot-size, --boot-from-flash, --flash-clock, --flash-width and --flash-pace need a chip: give"
BOARD_FILE = """
[usb]
serial = "LAB-7"
[[engines]]
chain = 1
sensor = true
leds = ["red"]
[[engines]]
tile = 1
[[flash]]
part = "MX25R3235F"
tile = 1
[sensor]
tile = 0
source = "pattern:bars"
[[ports]]
tile = 1
location = "XS1_PORT_1A"
name = "X"
"""
TASK_FILE = """
[[engines]]
arena = "64K"
[[engines]]
arena = "64K"
[[tasks]]
name = "worker"
task = "own:work"
tile = 1
ends = { engine = "engine 1" }
"""


@pytest.fixture
def board_file(tmp_path: Path) -> str:
    path = tmp_path / "my.toml"
    path.write_text(BOARD_FILE)
    return str(path)


def test_the_speed_of_the_flash_chip() -> None:
    board = made(name="with-flash", flash_clock=50, flash_width="2", flash_pace=True)
    assert board.flashes == (FlashSpec(clock_hz=Hertz(50_000_000), width=2, paced=True),)


def test_the_arena_in_external_memory() -> None:
    board = made(arena=1 << 20, arena_memory="external", external=0)
    assert board.engines == (EngineSpec(arena_bytes=1 << 20, arena_memory=Memory.EXTERNAL, external_bytes=0),)


@pytest.fixture
def task_file(tmp_path: Path) -> str:
    path = tmp_path / "tasks.toml"
    path.write_text(TASK_FILE)
    return str(path)


def test_no_option_is_the_single_board() -> None:
    assert made() == BOARDS["single"]


def test_a_file_is_taken_as_it_is(board_file: str) -> None:
    board = made(name=board_file)
    assert (board.serial, board.spi, len(board.engines)) == ("LAB-7", None, 2)
    assert board.flashes == (FlashSpec(MX25R3235F, tile=1),)


def test_options_count_more_than_the_file(board_file: str) -> None:
    board = made(name=board_file, serial="B", boot_size=64 * KIB, boot_from_flash="arena", spi=True)
    assert (board.serial, board.spi) == ("B", SpiSpec())
    assert board.flashes == (FlashSpec(MX25R3235F, tile=1, boot_bytes=Size(64 * KIB)),)
    assert all(engine.boot is not None for engine in board.engines)


def test_a_chip_of_the_options_takes_the_place_of_the_file_s(board_file: str) -> None:
    assert made(name=board_file, flash=Path("a.bin")).flashes == (FlashSpec(path=Path("a.bin")),)


def test_a_board_made_smaller_keeps_what_fits(board_file: str) -> None:
    board = made(name=board_file, tiles=1, engines=2, arena=0)
    assert [(engine.tile, engine.chain_to, engine.sensor) for engine in board.engines] == [
        (0, None, None)
    ] * 2
    assert board.sensor == SensorSpec(tile=0, source="pattern:bars")
    assert (board.usb_tile, board.flashes[0].tile, board.ports) == (0, 0, ())


def test_tasks_move_to_the_tile_that_is_left(task_file: str) -> None:
    assert [task.tile for task in made(name=task_file, tiles=1).tasks] == [0]


def test_a_task_whose_engine_the_options_take_away(task_file: str) -> None:
    with pytest.raises(click.UsageError) as error:
        made(name=task_file, engines=1)
    assert error.value.message == "engine 1 is not there; the board has 1"


def test_tasks_are_in_the_json_of_a_board(task_file: str) -> None:
    values = json.loads(run(task_file, "--json").output)
    (task,) = values["tasks"]
    assert {key: task[key] for key in ("name", "task", "tile", "ends")} == {
        "name": "worker",
        "task": "own:work",
        "tile": 1,
        "ends": {"engine": "engine 1"},
    }
    assert "worker" in values["demand"]["tiles"][1]["cores"]


def test_spi_is_as_the_board_has_it() -> None:
    assert made(spi=None).spi == SpiSpec()
    assert made(spi=False).spi is None
    assert made(name="no-flash").spi is None
    assert made(name="no-flash", spi=True).spi == SpiSpec()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boot_size": 4096}, NO_CHIP),
        ({"boot_from_flash": "ext"}, NO_CHIP),
        ({"flash_clock": 50}, NO_CHIP),
        ({"flash_pace": False}, NO_CHIP),
        ({"name": "missing.toml"}, "missing.toml: No such file or directory"),
        ({"engines": 9, "tiles": 1, "arena": 0}, "tile 0 needs 14 cores: XUD, usb_ep0, usb_data,"),
    ],
)
def test_a_board_that_cannot_be_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(click.UsageError) as error:
        made(**options)
    assert error.value.message.startswith(message)


def test_engines_of_the_options_are_like_the_board_s_first() -> None:
    board = made(name="director", engines=3)
    assert board.engines == (
        EngineSpec(tile=0, arena_bytes=64 * KIB),
        EngineSpec(tile=1, arena_bytes=64 * KIB),
        EngineSpec(tile=0, arena_bytes=64 * KIB),
    )


@pytest.mark.parametrize("kind", ["kernels", "kernels:native"])
def test_threads_of_kernels(kind: str) -> None:
    board = made(engine_kind=EngineKind.parse(kind), engines=2, kernel_threads=3)
    assert [str(engine.kind) for engine in board.engines] == ["kernels:native+threads=3"] * 2


@pytest.mark.parametrize("kind", ["tflm", "kernels:numpy"])
def test_kinds_without_threads_of_kernels(kind: str) -> None:
    with pytest.raises(
        click.UsageError, match=f"--kernel-threads: engine 0 is of kind '{kind}'; give --engine"
    ):
        made(engine_kind=EngineKind.parse(kind), kernel_threads=2)
