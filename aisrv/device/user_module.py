"""Modules of the user's own, beside the board's file or installed."""

import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from aisrv.values.printable import PrintableError


class UserModuleError(PrintableError):
    """An error in a module of the user's own, or in what a board names in it."""


def import_user_module(name: str, folder: Path | None) -> ModuleType:
    """Import a module from a folder, if it is there, or as Python finds it. Raises UserModuleError."""
    beside = None if folder is None else _module_file(folder.absolute(), name)
    if folder is not None and beside is not None:
        path = str(folder.absolute())
        if path not in sys.path:
            sys.path.append(path)  # for good: the module may import others beside it at any time
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            where = "" if folder is None else f"in {folder.absolute()} and "
            raise UserModuleError(
                f"there is no module {name!r}; it is looked for {where}among those that are installed"
            ) from None
        raise UserModuleError(f"the module {name!r} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise UserModuleError(
            f"the module {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    file = getattr(module, "__file__", None)
    if beside is not None and not (file and beside.samefile(file)):
        other = file or "which is part of Python"
        raise UserModuleError(f"{beside} is hidden by another module {name!r}, {other}: give it another name")
    return module


def find_async_function(module: ModuleType, name: str) -> Callable[..., Awaitable[object]]:
    """Find an async function of a module. Raises UserModuleError."""
    function: Any = getattr(module, name, None)
    if function is None:
        asyncs = [each for each, value in vars(module).items() if inspect.iscoroutinefunction(value)]
        near = difflib.get_close_matches(name, asyncs, 1)
        hint = (
            f"did you mean {near[0]}?" if near else f"its async functions are {', '.join(asyncs) or 'none'}"
        )
        raise UserModuleError(f"the module {module.__name__!r} has no function {name!r}; {hint}")
    if not inspect.iscoroutinefunction(function):
        raise UserModuleError(f"{name!r} is not an async function: write `async def {name}(...)`")
    checked: Callable[..., Awaitable[object]] = function
    return checked


def last_line(error: BaseException, folder: Path) -> str:
    """Name the last line of the user's own code, which is in a folder, on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f", line {frame.lineno} of {name.name}"
        for frame in frames
        if (name := Path(frame.filename)).parent == folder
    ]
    return lines[-1] if lines else ""


def _module_file(folder: Path, name: str) -> Path | None:
    """Find a module in a folder."""
    path = folder.joinpath(*name.split("."))
    files = path.with_name(f"{path.name}.py"), path / "__init__.py"
    return next((file for file in files if file.is_file()), None)
