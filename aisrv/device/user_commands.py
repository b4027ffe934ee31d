"""Commands of the user's own: a table of async functions by code, in a module beside the board's file."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from msgspec import Struct

from aisrv.board import Board, BoardError, CommandsSpec
from aisrv.device.user_module import UserModuleError, import_user_module
from aisrv.engine.commands import GET_HANDLERS, IOSERVER_SET_HANDLERS
from aisrv.engine.handlers import GetHandler, SetHandler
from aisrv.engine.state import CommandFailed
from aisrv.inference.errors import InferenceError
from aisrv.protocol.commands import command_name, is_set

MOST = 0xFF
"""The largest code of a command."""


class UserCommands(Struct, frozen=True):
    """The commands that a board adds to those of an engine."""

    gets: Mapping[int, GetHandler] = {}
    sets: Mapping[int, SetHandler] = {}

    @classmethod
    def load(cls, number: int, spec: CommandsSpec) -> Self:
        """Import the table of engine `number`. Raises BoardError."""
        try:
            module_name, colon, name = spec.table.partition(":")
            if not (module_name and colon and name):
                raise UserModuleError(f'commands are written "module:TABLE", not {spec.table!r}')
            module = import_user_module(module_name, spec.folder)
            table = getattr(module, name, None)
            if not isinstance(table, Mapping):
                raise UserModuleError(f"{module_name!r} has no table {name!r} of codes and functions")
            for code, function in table.items():
                _check(code, function)
        except UserModuleError as error:
            origin = spec.origin or f"engine {number}"
            raise BoardError(f"{origin}: {error}", "engines", number, "commands") from error.__cause__
        handlers = {code: _named(function, code, spec.table) for code, function in table.items()}
        return cls(
            {code: GetHandler(handler) for code, handler in handlers.items() if not is_set(code)},
            {code: SetHandler(handler) for code, handler in handlers.items() if is_set(code)},
        )


def load_user_commands(board: Board) -> list[UserCommands]:
    """Import the commands that a board adds to each of its engines. Raises BoardError."""
    return [
        UserCommands() if engine.commands is None else UserCommands.load(number, engine.commands)
        for number, engine in enumerate(board.engines)
    ]


def _check(code: object, function: object) -> None:
    """Check an entry of a table: its code is free, and its function takes what a command brings."""
    if not isinstance(code, int) or not 0 <= code <= MOST:
        raise UserModuleError(f"{code!r} is not a code of a command, a whole number from 0 to {MOST:#x}")
    if code in GET_HANDLERS or code in IOSERVER_SET_HANDLERS:
        raise UserModuleError(f"the code {code:#04x} is taken by {command_name(code)}")
    arguments = ("engine", "tensor", "array") if is_set(code) else ("engine", "tensor")
    kind = "SET, as bit 7 says," if is_set(code) else "GET"
    wanted = f"`async def function({', '.join(arguments)})`"
    if not inspect.iscoroutinefunction(function):
        raise UserModuleError(
            f"the command {code:#04x} is not an async function; for a {kind} write {wanted}"
        )
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise UserModuleError(f"the command {code:#04x} is a {kind} and needs {wanted}: {error}") from None


def _named(function: Callable[..., Awaitable[Any]], code: int, table: str) -> Callable[..., Awaitable[Any]]:
    """Have what a function raises, other than a refusal, say which command it is from."""

    async def handler(*arguments: object) -> Any:  # noqa: ANN401 - bytes of a GET, nothing of a SET
        try:
            answer = await function(*arguments)
            if not is_set(code) and not isinstance(answer, bytes | bytearray | memoryview):
                raise TypeError(f"the answer of a GET is bytes, not {type(answer).__name__}")
            return answer
        except (CommandFailed, InferenceError):
            raise
        except Exception as error:
            error.add_note(f"in the command {code:#04x} of the board, {table}")
            raise

    return handler
