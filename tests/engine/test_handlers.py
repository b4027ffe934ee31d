"""Handlers register for the command that they name; one that is missing, or too many, stops the start."""

from unittest.mock import patch

import pytest

import aisrv.engine.commands  # noqa: F401 - makes its functions handlers
from aisrv.engine.handlers import GETS, SETS, answers, carries_out, check_all_handled
from aisrv.engine.state import AIEngine
from aisrv.protocol.commands import Command
from aisrv.xcore.channels.array import Array


def _answer(_engine: AIEngine, _tensor: int) -> bytes:
    return b""


async def _carry_out(_engine: AIEngine, _tensor: int, _array: Array) -> None:
    """Do nothing."""


def test_a_command_without_a_handler_is_named() -> None:
    check_all_handled()
    with patch.dict(GETS), patch.dict(SETS):
        del GETS[Command.GET_ID], SETS[Command.START_INFER]
        with pytest.raises(TypeError, match=r"^no handler in aisrv/engine: GET_ID, START_INFER$"):
            check_all_handled()


def test_a_command_has_one_handler() -> None:
    with pytest.raises(TypeError, match=r"^GET_ID has two handlers$"):
        answers(Command.GET_ID)(_answer)
    with pytest.raises(TypeError, match=r"^START_INFER has two handlers$"):
        carries_out(Command.START_INFER)(_carry_out)


def test_a_handler_is_of_the_direction_of_its_command() -> None:
    with pytest.raises(TypeError, match=r"^START_INFER is a SET$"):
        answers(Command.START_INFER)(_answer)
    with pytest.raises(TypeError, match=r"^GET_ID is a GET$"):
        carries_out(Command.GET_ID)(_carry_out)
