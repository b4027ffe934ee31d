"""Handlers of commands: a decorator makes a function the handler of the command that it names.

A GET that a plain function answers needs no other task, and is answered in that of the client. An async
function may wait.
"""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar

from msgspec import Struct

from aisrv.engine.state import AIEngine
from aisrv.protocol.commands import ENGINE_COMMANDS, Command, is_set
from aisrv.xcore.channels.array import Array

SMALL: Final = 512
"""Data bytes kept of a SET that carries a setting."""

Answer = bytes | memoryview
GetAction = Callable[[AIEngine, int], Answer | Awaitable[Answer]]
"""Answers a GET for an engine and a tensor number.

One that is not async may be called twice for one command; where it gives more than SMALL bytes it must change
nothing.
"""
SetAction = Callable[[AIEngine, int, Array], Awaitable[None]]
G = TypeVar("G", bound=GetAction)
S = TypeVar("S", bound=SetAction)


def _small(_engine: AIEngine) -> int:
    return SMALL


class GetHandler(Struct, frozen=True):
    """The handler of a GET."""

    run: GetAction
    at_once: Callable[[AIEngine, int], Any] | None = None
    """The same where it is a plain function, which needs no other task."""


class SetHandler(Struct, frozen=True):
    """The handler of a SET, and the most bytes of data that it takes."""

    run: SetAction
    limit: Callable[[AIEngine], int] = _small
    at_once: Callable[[AIEngine, int, Array], None] | None = None
    """The same for data of up to AT_ONCE bytes, where that needs no other task."""


GETS: Final[dict[int, GetHandler]] = {}
SETS: Final[dict[int, SetHandler]] = {}
"""The handlers so far; `aisrv.engine.commands` has all."""


def answers(*commands: Command) -> Callable[[G], G]:
    """Make a function the handler of these GETs."""

    def register(function: G) -> G:
        for command in commands:
            _check(command, set_=False)
            GETS[command] = GetHandler(function, None if iscoroutinefunction(function) else function)
        return function

    return register


def carries_out(
    command: Command,
    limit: Callable[[AIEngine], int] = _small,
    at_once: Callable[[AIEngine, int, Array], None] | None = None,
) -> Callable[[S], S]:
    """Make an async function the handler of a SET; see `SetHandler`."""

    def register(function: S) -> S:
        _check(command, set_=True)
        SETS[command] = SetHandler(function, limit, at_once)
        return function

    return register


def _check(command: Command, *, set_: bool) -> None:
    """Raise TypeError for a handler of the wrong kind, or a second one."""
    if is_set(command) is not set_:
        raise TypeError(f"{command.name} is a {'SET' if is_set(command) else 'GET'}")
    if command in (SETS if set_ else GETS):
        raise TypeError(f"{command.name} has two handlers")


def check_all_handled() -> None:
    """Raise TypeError where a command of the engine has no handler."""
    missing = [each.name for each in ENGINE_COMMANDS if each not in {*GETS, *SETS}]
    if missing:
        raise TypeError(f"no handler in aisrv/engine: {', '.join(missing)}")
