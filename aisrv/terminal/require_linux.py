"""Commands that need Linux: elsewhere they say so in one line, and their help can still be read."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "_aisrv_requires_linux"


def require_linux(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have `aisrv NAME` end with one line and exit code 1 on another system; stands below `click.command`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if sys.platform != "linux":
                raise click.ClickException(f"aisrv {name} needs Linux")
            return function(*args, **kwargs)

        setattr(run, _MARK, True)
        return run

    return decorate


def requires_linux(command: click.Command) -> bool:
    """Check whether a command is one of these."""
    return hasattr(command.callback, _MARK)
