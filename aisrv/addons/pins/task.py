"""Tasks of the user's own on the pins of a node: async functions that stand for what is wired to them."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import trio
from msgspec import Struct

from aisrv.addons.pins.errors import PinTaskError
from aisrv.board.user_tasks import CONTEXT
from aisrv.device.user_module import UserModuleError, find_async_function, import_user_module, last_line
from aisrv.xcore.node import Node


class PinTask(Struct, frozen=True):
    """A task on pins, ready to run: `module:function`."""

    name: str
    function: Callable[..., Awaitable[object]]
    context: tuple[str, ...]
    """Those of `node` and `tile`, which is tile 0, that the function wants."""

    async def __call__(self, node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the function beside the cores. Raises PinTaskError where it fails."""
        own = {"node": node, "tile": node.tiles[0]}
        task_status.started()
        try:
            await self.function(**{name: own[name] for name in self.context})
        except Exception as error:
            line = last_line(error, Path(self.function.__code__.co_filename).parent)
            raise PinTaskError(f"{self.name} failed: {type(error).__name__}: {error}{line}") from error

    @classmethod
    def load(cls, name: str, folder: Path) -> Self:
        """Import a function of a module, in a folder or installed. Raises UserModuleError."""
        module_name, colon, function_name = name.partition(":")
        if not colon or not function_name.isidentifier():
            raise UserModuleError(f"{name!r} is not MODULE:FUNCTION")
        function = find_async_function(import_user_module(module_name, folder), function_name)
        parameters = inspect.signature(function).parameters
        for parameter in parameters.values():
            if parameter.name not in CONTEXT and parameter.default is parameter.empty:
                raise UserModuleError(f"{function_name}() needs {parameter.name!r}; a task has node and tile")
        return cls(name, function, tuple(each for each in CONTEXT if each in parameters))
