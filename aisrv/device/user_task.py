"""Tasks of the user's own: an async function of a module, beside the board's file or installed."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from aisrv.board import Board, BoardError, Plan, TaskKind, TaskSpec
from aisrv.board.user_tasks import CONTEXT
from aisrv.device.user_module import (
    UserModuleError,
    find_async_function,
    import_user_module,
    last_line,
)
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node
from aisrv.xcore.tile import Tile

if TYPE_CHECKING:
    from aisrv.addons.firmware.part import CTask


class UserTask(Struct, frozen=True):
    """A task of the user's own, ready to run."""

    spec: TaskSpec
    function: Callable[..., Awaitable[object]]
    context: tuple[str, ...] = ()
    """Those of `node` and `tile` that the function wants besides its ends."""

    async def run(self, ends: Mapping[str, ChanEnd], node: Node, tile: Tile) -> None:
        """Run the function with its channel ends; what it raises gets a note that names the task."""
        own = {"node": node, "tile": tile}
        try:
            await self.function(**ends, **{name: own[name] for name in self.context})
        except Exception as error:
            line = last_line(error, Path(self.function.__code__.co_filename).parent)
            error.add_note(f"in the task {self.spec.name!r} of the board, {self.spec.task}{line}")
            raise

    @classmethod
    def load(cls, number: int, spec: TaskSpec, ends: Collection[str]) -> Self:
        """Import the function of the board's task `number`, which takes `ends`. Raises BoardError."""
        try:
            module_name, _, name = spec.task.partition(":")
            module = import_user_module(module_name, spec.folder)
            function = find_async_function(module, name)
            parameters = inspect.signature(function).parameters
            _check_parameters(name, parameters, ends)
        except UserModuleError as error:
            origin = spec.origin or f"the task {spec.name!r}"
            raise BoardError(f"{origin}: {error}", "tasks", number, "task") from error.__cause__
        return cls(spec, function, tuple(name for name in CONTEXT if name in parameters))


def load_user_tasks(board: Board, plan: Plan, closing: ExitStack) -> "list[UserTask | CTask]":
    """Import the functions of a board's own tasks, and compile those in C. Raises BoardError.

    `closing` ends the programs of C.
    """
    tasks = {task.number: task for task in plan.tasks if task.kind is TaskKind.USER}
    ends = [[end.name for end in plan.ends_of(tasks[number])] for number in range(len(board.tasks))]
    in_c: Mapping[int, CTask] = {}
    if any(spec.is_in_c for spec in board.tasks):
        from aisrv.addons.firmware.part import load_c_tasks

        in_c = load_c_tasks(board, ends, closing)
    return [
        in_c.get(number) or UserTask.load(number, spec, ends[number])
        for number, spec in enumerate(board.tasks)
    ]


def _check_parameters(
    function: str, parameters: Mapping[str, inspect.Parameter], ends: Collection[str]
) -> None:
    """Check that a function can be called with its ends by name."""
    kinds = {parameter.kind for parameter in parameters.values()}
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        raise UserModuleError(f"{function}() takes arguments by position only, its ends are given by name")
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for end in ends:
            if end not in named:
                takes = ", ".join(named) or "none"
                raise UserModuleError(f"{function}() has no parameter for the end {end!r}; it has {takes}")
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in (*ends, *CONTEXT):
            raise UserModuleError(
                f"{function}() needs {name!r}, which is not one of the task's ends: add it to its ends"
            )
