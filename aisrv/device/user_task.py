"""Tasks of the user's own: an async function of a module, beside the board's file or installed."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec import Struct

from aisrv.board import Board, BoardError, Plan, TaskKind, TaskSpec
from aisrv.board.user_tasks import CONTEXT
from aisrv.device.user_module import (
    UserModuleError,
    find_async_function,
    import_user_module,
    last_line,
)
from aisrv.values.addons import load
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node
from aisrv.xcore.tile import Tile

if TYPE_CHECKING:
    from aisrv.device.part_factory import PartFactory
    from phy.usb.bus import UsbBus


class LoadedTask(Struct, frozen=True):
    """A task of the user's own, ready to run; each kind has a class."""

    spec: TaskSpec

    async def run(self, ends: Mapping[str, ChanEnd], node: Node, tile: Tile) -> None:
        """Run it with its channel ends."""
        raise NotImplementedError

    def make_usb(self, factory: "PartFactory") -> "UsbBus":
        """Make the bus on which it is the device; asked of one whose table says that it can be."""
        raise NotImplementedError


LoadTasks: TypeAlias = Callable[[Board, Mapping[int, Collection[str]], ExitStack], Mapping[int, LoadedTask]]
"""Makes the tasks of a kind on a board ready to run: of each number, for which it gets the names of the ends.

The stack ends what they started. Raises BoardError.
"""


class UserTask(LoadedTask, frozen=True):
    """A task of the user's own in Python."""

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
    def load(cls, number: int, board: Board, ends: Collection[str]) -> Self:
        """Import the function of the board's task `number`, which takes `ends`. Raises BoardError."""
        spec = board.tasks[number]
        try:
            module_name, _, name = spec.task.partition(":")
            module = import_user_module(module_name, board.folder)
            function = find_async_function(module, name)
            parameters = inspect.signature(function).parameters
            _check_parameters(name, parameters, ends)
        except UserModuleError as error:
            origin = board.place("tasks", number, "task") or f"the task {spec.name!r}"
            raise BoardError(f"{origin}: {error}", "tasks", number, "task") from error.__cause__
        return cls(spec, function, tuple(name for name in CONTEXT if name in parameters))


def load_user_tasks(board: Board, plan: Plan, closing: ExitStack) -> list[LoadedTask]:
    """Make a board's own tasks ready to run: import the functions of those in Python. Raises BoardError.

    `closing` ends what they started.
    """
    tasks = {task.number: task for task in plan.tasks if task.kind is TaskKind.USER}
    loaded: dict[int, LoadedTask] = {}
    for place in dict.fromkeys(spec.loads for spec in board.tasks):
        numbers = [number for number, spec in enumerate(board.tasks) if spec.loads == place]
        load_tasks: LoadTasks = load(place)
        ends = {number: [end.name for end in plan.ends_of(tasks[number])] for number in numbers}
        loaded |= load_tasks(board, ends, closing)
    return [loaded[number] for number in range(len(board.tasks))]


def load_python_tasks(
    board: Board, ends: Mapping[int, Collection[str]], _closing: ExitStack
) -> dict[int, LoadedTask]:
    """Import the functions of the tasks in Python. Raises BoardError."""
    return {number: UserTask.load(number, board, names) for number, names in ends.items()}


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
