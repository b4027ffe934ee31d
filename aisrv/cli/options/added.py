"""The options of `run` that add-ons bring, and the servers that they start."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import trio

from aisrv.board import Board
from aisrv.device.device import Device
from aisrv.terminal.option_group import option_group
from aisrv.values.addons import load, offered

P = ParamSpec("P")
R = TypeVar("R")

Listen = Callable[[Callable[..., Awaitable[Any]], str, int, str], Awaitable[str]]
"""Starts a server on an address and a port, which an option sets, and returns its address."""


@dataclass(frozen=True, slots=True)
class AddedOptions:
    """A group of options of an add-on; what it does not override changes nothing."""

    def boards(self, boards: Sequence[Board]) -> Sequence[Board]:
        """Return the boards with the changes of the options. Raises click.UsageError for impossible ones."""
        return boards

    async def serve(self, devices: Sequence[Device], nursery: trio.Nursery, listen: Listen) -> Sequence[str]:
        """Start its servers for the devices; return their addresses. Raises OSError."""
        _ = devices, nursery, listen
        return ()


def added_options(function: Callable[P, R]) -> Callable[..., R]:
    """Add the groups of all add-ons to a command, which gets them as `added`, in the order of add-ons."""
    groups = {title: load(place) for title, place in offered("run_options").items()}

    @wraps(function)
    def command(*arguments: P.args, **values: P.kwargs) -> R:
        values["added"] = [values.pop(title) for title in groups]
        return function(*arguments, **values)

    wrapped: Callable[..., R] = command
    for title, group in reversed(groups.items()):
        wrapped = option_group(title, group, f"{title} options")(wrapped)
    return wrapped
