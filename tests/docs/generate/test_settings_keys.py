"""The keys of the TOML files as their loaders have them."""

import tomllib
from functools import cache

import pytest

from aisrv.board import Board
from aisrv.board.toml_file import parse_board
from docs.generate import settings_keys
from docs.generate.settings_keys import pack_keys, suite_keys, sweep_keys

board_keys = cache(settings_keys.board_keys)


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """The cells of a table by its key."""
    section = text.split(f"### {heading}\n")[1].split("### ", maxsplit=1)[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def test_a_key_has_type_default_and_meaning() -> None:
    assert rows(board_keys(), "`[[engines]]`")["arena"] == [
        "size",
        '`"448K"`',
        "Bytes of the tensor arena; a model set in ARENA memory takes its bytes from it.",
    ]


def test_values_that_a_key_allows() -> None:
    assert rows(board_keys(), "`[usb]`")["protocol"][:2] == ['`"aisrv"`, `"ioserver"`', '`"aisrv"`']


def test_a_key_that_must_be_given() -> None:
    assert rows(board_keys(), "`[sensor]`")["source"][1] == "must be given"


@pytest.mark.parametrize("table", ["node", "usb", "spi", "engines", "engines.cache"])
def test_a_board_file_with_the_stated_defaults_is_the_default_board(table: str) -> None:
    text = board_keys()
    heading = f"`[[{table}]]`" if table == "engines" else f"`[{table}]`"
    stated = {key: cells[1] for key, cells in rows(text, heading).items() if cells[1].startswith("`")}
    assert stated
    lines = "\n".join(f"{key} = {value.strip('`')}" for key, value in stated.items())
    opening = {"engines": "[[engines]]", "engines.cache": "[[engines]]\n[engines.cache]"}.get(
        table, f"[{table}]"
    )
    spi = "" if table == "spi" else "[spi]\n"
    tomllib.loads(f"{spi}{opening}\n{lines}")
    assert parse_board(f"{spi}{opening}\n{lines}") == Board()


def test_defaults_of_packing_and_of_suites() -> None:
    assert rows(pack_keys(), "Top of a packing file")["generation"][1] == '`"fast"`'
    assert rows(suite_keys(), "`[defaults]`")["parameters"][1] == '`"auto"`'


def test_keys_of_a_sweep_are_those_that_a_suite_does_not_have() -> None:
    assert set(rows(sweep_keys(), "Top of a sweep")) == {"boards", "link"}
    assert rows(sweep_keys(), "`[axes]`")["kernels"][0] == 'array of `"optimized"`, `"reference"`'
    assert "`[defaults]`" not in sweep_keys()
