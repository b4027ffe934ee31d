"""Commands of the user's own on a running device, and what is said of tables that cannot be loaded."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
import trio

from aisrv.board import Board, BoardError, CommandsSpec, EngineSpec
from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from tests.support.benches.simulation import sole_error

WRITE_MODULE = Callable[[str], str]
GOOD = """
    from aisrv.engine.state import CommandFailed
    from aisrv.protocol.commands import Status

    kept = bytearray(b"nothing")

    async def get_kept(engine, tensor):
        return bytes(kept) + bytes([tensor])

    async def set_kept(engine, tensor, array):
        if array.length < 2:
            raise CommandFailed(Status.ERROR_BAD_CMD, "a word has two letters at least")
        kept[:] = bytes(array.data)
        engine.log.write(f"kept {array.length} bytes, inferences: {engine.inferences}")

    async def fail(engine, tensor):
        raise LookupError("mine")

    async def number(engine, tensor):
        return 7

    COMMANDS = {0x60: get_kept, 0xE0: set_kept, 0x61: fail, 0x62: number}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> WRITE_MODULE:
    """Writes a module into the folder of the test; returns its name, which no other test uses."""
    name = f"commands_of_{request.node.name.partition('[')[0]}_{abs(hash(request.node.name))}"
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(dedent(text))
        return name

    return write


def board_of(folder: Path, table: str) -> Board:
    own = EngineSpec(arena_bytes=64 * 1024, commands=CommandsSpec(table, folder))
    return Board(engines=(own, EngineSpec(arena_bytes=64 * 1024)), spi=None)


async def test_a_set_and_a_get_of_ones_own_are_answered(tmp_path: Path, module: WRITE_MODULE) -> None:
    async with open_device(board_of(tmp_path, f"{module(GOOD)}:COMMANDS"), runner=inline) as device:
        engine = device.local[0]
        assert await get_command(engine, 0x60, 3) == (Status.OKAY, b"nothing\x03")
        assert await set_command(engine, 0xE0, 0, b"seven") == Status.OKAY
        assert await get_command(engine, 0x60) == (Status.OKAY, b"seven\x00")
        assert bytes(device.engines[0].log).startswith(b"kept 5 bytes, inferences: 0\n\0")


async def test_a_command_of_ones_own_can_refuse(tmp_path: Path, module: WRITE_MODULE) -> None:
    async with open_device(board_of(tmp_path, f"{module(GOOD)}:COMMANDS"), runner=inline) as device:
        assert await set_command(device.local[0], 0xE0, 0, b"x") == Status.ERROR_BAD_CMD
        log = bytes(device.engines[0].log).rstrip(b"\0").decode()
        assert log.splitlines()[-1] == "command 0xe0: a word has two letters at least"
        assert await get_command(device.local[0], 0x60) == (Status.OKAY, b"nothing\x00")


async def test_only_the_engine_that_names_them_has_them(tmp_path: Path, module: WRITE_MODULE) -> None:
    async with open_device(board_of(tmp_path, f"{module(GOOD)}:COMMANDS"), runner=inline) as device:
        status, _ = await get_command(device.local[1], 0x60)
        assert status is Status.ERROR_BAD_CMD
        assert (await get_command(device.local[0], Command.GET_ID))[1] == bytes.fromhex("78563412")


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [(0x61, LookupError, "mine"), (0x62, TypeError, "the answer of a GET is bytes, not int")],
)
async def test_what_a_command_raises_ends_the_device_and_names_it(
    tmp_path: Path, module: WRITE_MODULE, code: int, kind: type[Exception], message: str
) -> None:
    name = module(GOOD)

    async def ask() -> None:
        async with open_device(board_of(tmp_path, f"{name}:COMMANDS"), runner=inline) as device:
            device.node.tiles[0].start(get_command, device.local[0], code)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await ask()
    error = sole_error(caught.value, kind)
    assert str(error) == message
    assert error.__notes__ == [f"in the command {code:#04x} of the board, {name}:COMMANDS"]


@pytest.mark.parametrize(
    ("table", "text", "message"),
    [
        ("plain", "", "commands are written \"module:TABLE\", not 'plain'"),
        (":T", "", "commands are written \"module:TABLE\", not ':T'"),
        ("M:T", "", "'M' has no table 'T' of codes and functions"),
        ("M:T", "T = [1]", "'M' has no table 'T' of codes and functions"),
        ("M:T", "T = {256: 1}", "256 is not a code of a command, a whole number from 0 to 0xff"),
        ("M:T", "T = {-1: 1}", "-1 is not a code of a command, a whole number from 0 to 0xff"),
        ("M:T", "T = {'x': 1}", "'x' is not a code of a command, a whole number from 0 to 0xff"),
        ("M:T", "T = {0x10: 1}", "the code 0x10 is taken by GET_ID"),
        ("M:T", "T = {0x84: 1}", "the code 0x84 is taken by START_INFER"),
        (
            "M:T",
            "T = {0x60: len}",
            "the command 0x60 is not an async function; for a GET write `async def function(engine, tensor)`",
        ),
        (
            "M:T",
            "async def f(engine): ...\nT = {0x60: f}",
            (
                "the command 0x60 is a GET and needs `async def function(engine, tensor)`: "
                "too many positional arguments"
            ),
        ),
        (
            "M:T",
            "async def f(engine, tensor): ...\nT = {0xE0: f}",
            (
                "the command 0xe0 is a SET, as bit 7 says, and needs "
                "`async def function(engine, tensor, array)`: too many positional arguments"
            ),
        ),
    ],
)
async def test_a_table_that_cannot_be_used_is_told(
    tmp_path: Path, module: WRITE_MODULE, table: str, text: str, message: str
) -> None:
    name = module(text)
    with pytest.raises(BoardError) as caught:
        async with open_device(board_of(tmp_path, table.replace("M", name)), runner=inline):
            pass
    assert str(caught.value) == f"engine 0: {message.replace(repr('M'), repr(name))}"
    assert caught.value.setting == ("engines", 0, "commands")


async def test_a_board_file_names_the_place(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[[engines]]\n\n[[engines]]\ntile = 1\ncommands = "no_such_module_here:T"\n')
    board = read_board(path)
    assert board.engines[0].commands is None
    with pytest.raises(BoardError) as caught:
        async with open_device(board, runner=inline):
            pass
    assert str(caught.value) == (
        f"{path}:5: engines[1].commands: there is no module 'no_such_module_here'; "
        f"it is looked for in {tmp_path} and among those that are installed"
    )
