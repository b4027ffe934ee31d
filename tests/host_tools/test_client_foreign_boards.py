"""Boards of others do not know what a virtual device alone answers: however they refuse, the rest works."""

import json
from collections.abc import Callable
from typing import Final

import pytest
from click.testing import CliRunner

from aisrv.protocol.commands import STATUS_ERRORS, Command, Dialect, Status
from docs.generate.member_docs import member_docs
from host_tools.cli import main
from host_tools.client import AiServer
from host_tools.errors import CommandError, TensorError
from tests.support.benches.memory_device import Engine
from tests.support.peers.foreign_board import Board, Refusal, plugged_board

OURS: Final = {Command[name] for name, text in member_docs(Command).items() if text.startswith("Ours:")}
"""The commands that only virtual devices know: the list is the product's."""

REFUSALS: Final = {
    **{f"{bit.name}": Refusal(bit) for bit in STATUS_ERRORS},
    "without a status": Refusal(),
    "an unknown status": Refusal(0x40),
    "all bits": Refusal(0x7C),
    "BUSY": Refusal(Status.BUSY),
    "IN alone halted": Refusal(Status.ERROR_BAD_CMD, (0x81,)),
    "other data": Refusal(answer=b"\x07"),
}

each_refusal = pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
each_dialect = pytest.mark.parametrize("dialect", list(Dialect), ids=lambda dialect: str(dialect.value))


def board_of(refusal: Refusal) -> Board:
    """A board with a model of one operator, which has run."""
    return Board(refusal, OURS, Engine(timings=[5], model=b"of the board's"))


def tensors_are_not_told(server: AiServer) -> bool:
    with pytest.raises(TensorError, match="the device does not say what its model's tensors are"):
        server.model()
    return True


def times_are_bare(server: AiServer) -> bool:
    timings = server.timings()
    return (tuple(timings), timings.names, timings.band) == ((5,), (), None)


OPTIONAL: Final[dict[str, Callable[[AiServer], bool]]] = {
    "GET_BOOT": lambda server: server.boot_report() in (b"", b"\x07"),
    "GET_MEMORY": lambda server: server.memory_map() is None,
    "GET_SENSOR_FORMAT": lambda server: server.sensor_format() is None,
    "GET_TENSORS": tensors_are_not_told,
    "GET_TIMING_BANDS GET_OPERATORS": times_are_bare,
}
"""The questions that the client asks beside others, and what it makes of a refusal."""
ALONE: Final = {Command.GET_PROFILE, Command.GET_SENSOR_TENSOR_LENGTH}
"""Those that a host asks only where its user asks for the answer."""


def test_each_command_of_ours_is_optional_or_asked_for() -> None:
    optional = [Command[name] for names in OPTIONAL for name in names.split()]
    assert sorted(optional + list(ALONE)) == sorted(OURS)


@each_refusal
@each_dialect
def test_what_a_board_does_not_know_is_optional(refusal: Refusal, dialect: Dialect) -> None:
    board = board_of(refusal)
    with plugged_board(board) as address, AiServer.open(address, dialect=dialect, timeout=10) as server:
        answers = {names: ask(server) for names, ask in OPTIONAL.items()}
        assert answers == dict.fromkeys(OPTIONAL, True)
        assert (server.id, server.spec().timing_count) == (0x12345678, 1)
    assert set(board.asked) & OURS == OURS - ALONE


@each_refusal
@each_dialect
def test_info_of_a_board_that_refuses(refusal: Refusal, dialect: Dialect) -> None:
    with plugged_board(board_of(refusal)) as address:
        options = ["--device", address, "--dialect", dialect.value, "--json", "info"]
        result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    info = json.loads(result.stdout)
    assert (info["id"], info["boot"], info["memory"]) == (0x12345678, None, None)
    assert info["spec"]["input_bytes"] == 16


@each_dialect
def test_a_refusal_of_the_moment_is_asked_again(dialect: Dialect) -> None:
    board = board_of(Refusal(Status.ERROR_NO_MODEL))
    with plugged_board(board) as address, AiServer.open(address, dialect=dialect, timeout=10) as server:
        assert server.memory_map() is server.memory_map() is None
    assert board.asked.count(Command.GET_MEMORY) == 2


@each_dialect
def test_an_unknown_command_is_asked_once(dialect: Dialect) -> None:
    board = board_of(Refusal(Status.ERROR_BAD_CMD))
    with plugged_board(board) as address, AiServer.open(address, dialect=dialect, timeout=10) as server:
        assert server.memory_map() is server.memory_map() is None
    assert board.asked.count(Command.GET_MEMORY) == 1


def test_what_a_user_asks_for_is_refused() -> None:
    board = board_of(Refusal(Status.ERROR_NO_MODEL))
    with (
        plugged_board(board) as address,
        AiServer.open(address, timeout=10) as server,
        pytest.raises(CommandError, match="GET_PROFILE failed"),
    ):
        server.profile()
