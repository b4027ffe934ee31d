"""Tasks of the user's own: an async function of a module, beside the board's file or installed."""

import difflib
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from msgspec import Struct

from aisrv.board import Board, BoardError, Plan, TaskKind, TaskSpec
from aisrv.board.user_tasks import CONTEXT
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.node import Node
from aisrv.xcore.tile import Tile


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
            error.add_note(f"in the task {self.spec.name!r} of the board, {self.spec.task}")
            raise

    @classmethod
    def load(cls, number: int, spec: TaskSpec, ends: Collection[str]) -> Self:
        """Import the function of the board's task `number`, which takes `ends`. Raises BoardError."""
        try:
            module = _import(spec)
            name = spec.task.partition(":")[2]
            function = _function(module, name)
            parameters = inspect.signature(function).parameters
            _check_parameters(name, parameters, ends)
        except _FunctionError as error:
            origin = spec.origin or f"the task {spec.name!r}"
            raise BoardError(f"{origin}: {error}", "tasks", number, "task") from error.__cause__
        return cls(spec, function, tuple(name for name in CONTEXT if name in parameters))


def load_user_tasks(board: Board, plan: Plan) -> list[UserTask]:
    """Import the functions of a board's own tasks. Raises BoardError."""
    return [
        UserTask.load(task.number, board.tasks[task.number], [end.name for end in plan.ends_of(task)])
        for task in plan.tasks
        if task.kind is TaskKind.USER
    ]


class _FunctionError(Exception):
    """An error in a function or its module."""


def _import(spec: TaskSpec) -> ModuleType:
    name = spec.task.partition(":")[0]
    beside = None if spec.folder is None else _module_file(spec.folder.absolute(), name)
    if spec.folder is not None and beside is not None:
        folder = str(spec.folder.absolute())
        if folder not in sys.path:
            sys.path.append(folder)  # for good: the module may import others beside it at any time
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            where = "" if spec.folder is None else f"in {spec.folder.absolute()} and "
            raise _FunctionError(
                f"there is no module {name!r}; it is looked for {where}among those that are installed"
            ) from None
        raise _FunctionError(f"the module {name!r} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise _FunctionError(
            f"the module {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    file = getattr(module, "__file__", None)
    if beside is not None and not (file and beside.samefile(file)):
        other = file or "which is part of Python"
        raise _FunctionError(f"{beside} is hidden by another module {name!r}, {other}: give it another name")
    return module


def _module_file(folder: Path, name: str) -> Path | None:
    """Find a module in a folder."""
    path = folder.joinpath(*name.split("."))
    files = path.with_name(f"{path.name}.py"), path / "__init__.py"
    return next((file for file in files if file.is_file()), None)


def _function(module: ModuleType, name: str) -> Callable[..., Awaitable[object]]:
    function: Any = getattr(module, name, None)
    if function is None:
        asyncs = [each for each, value in vars(module).items() if inspect.iscoroutinefunction(value)]
        near = difflib.get_close_matches(name, asyncs, 1)
        hint = (
            f"did you mean {near[0]}?" if near else f"its async functions are {', '.join(asyncs) or 'none'}"
        )
        raise _FunctionError(f"the module {module.__name__!r} has no function {name!r}; {hint}")
    if not inspect.iscoroutinefunction(function):
        raise _FunctionError(f"{name!r} is no async function: write `async def {name}(...)`")
    checked: Callable[..., Awaitable[object]] = function
    return checked


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
        raise _FunctionError(f"{function}() takes arguments by position only, its ends are given by name")
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for end in ends:
            if end not in named:
                takes = ", ".join(named) or "none"
                raise _FunctionError(f"{function}() has no parameter for the end {end!r}; it has {takes}")
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in (*ends, *CONTEXT):
            raise _FunctionError(
                f"{function}() needs {name!r}, which is no end of the task: add it to its ends"
            )
