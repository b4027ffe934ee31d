"""The names of the package itself, and what type checkers know of them."""

import ast
from pathlib import Path
from typing import assert_type

import pytest

import aisrv
import host_tools.errors
from aisrv.board import Board
from aisrv.device.device import open_device
from host_tools.client import AiServer
from tests.support.programs import run_python


def test_public_names_are_those_of_their_modules() -> None:
    assert (aisrv.AiServer, aisrv.Board, aisrv.open_device) == (AiServer, Board, open_device)
    assert {"AiServer", "Board", "open_device"} <= set(dir(aisrv))


def test_every_error_of_the_host_is_a_public_name() -> None:
    errors = {name for name, each in vars(host_tools.errors).items() if isinstance(each, type)}
    own = {name for name in errors if getattr(host_tools.errors, name).__module__ == "host_tools.errors"}
    assert own <= set(aisrv.__all__)
    assert aisrv.NoModelError is host_tools.errors.NoModelError


def test_a_board_of_public_names_alone_is_refused_by_a_public_error() -> None:
    with pytest.raises(aisrv.BoardError, match="engine 0 is on tile 7"):
        aisrv.Board(engines=(aisrv.EngineSpec(tile=7),))


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'aisrv' has no attribute 'Borad'"):
        aisrv.Borad  # type: ignore[attr-defined]  # noqa: B018


def test_a_host_program_needs_neither_trio_nor_numpy_to_begin() -> None:
    code = (
        "import sys; from aisrv import AiServer; print(sorted({'trio', 'numpy', 'usb'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]\n"


def test_type_checkers_know_the_public_names() -> None:
    assert_type(aisrv.Board(), Board)
    stub = ast.parse(Path(aisrv.__file__).with_suffix(".pyi").read_text())
    names = {name.asname for each in stub.body if isinstance(each, ast.ImportFrom) for name in each.names}
    assert names | {"__version__"} == set(aisrv.__all__)
