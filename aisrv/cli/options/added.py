"""The options that add-ons bring to commands on devices, and the servers that they start."""

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


def added_options(name: str) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """Add the groups of add-ons to the command of this name, which gets them as `added`, in their order."""
    groups = {
        title: load(options.place)
        for title, options in offered("options").items()
        if name in options.commands
    }

    def add_options(function: Callable[P, R]) -> Callable[..., R]:
        @wraps(function)
        def command(*arguments: P.args, **values: P.kwargs) -> R:
            values["added"] = [values.pop(title) for title in groups]
            return function(*arguments, **values)

        wrapped: Callable[..., R] = command
        for title, group in reversed(groups.items()):
            wrapped = option_group(title, group, f"{title} options")(wrapped)
        return wrapped

    return add_options


def changed_boards(boards: Sequence[Board], added: Sequence[AddedOptions]) -> Sequence[Board]:
    """Return the boards with the changes of all the options. Raises click.UsageError."""
    for options in added:
        boards = options.boards(boards)
    return boards
