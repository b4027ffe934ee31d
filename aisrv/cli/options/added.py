"""The options that add-ons bring to commands on devices, and the servers that they start."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

import trio
from msgspec import Struct

from aisrv.board import Board
from aisrv.device.device import Device
from aisrv.terminal.option_group import option_group
from aisrv.values.addons import load, offered
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort

P = ParamSpec("P")
R = TypeVar("R")

Listen = Callable[[Callable[..., Awaitable[Any]], str, int, str], Awaitable[str]]
"""Starts a server on an address and a port, which an option sets, and returns its address."""


class Served(NamedTuple):
    """A server that runs."""

    place: str
    """Its address, as the ready line has it: `jacdac:HOST:PORT` and so on."""
    hint: str = ""
    """What a user may do with it, for a line on standard error."""


class Ports(Struct, frozen=True):
    """The ports of running devices, in the order of the devices."""

    usb: Sequence[HostPort]
    spi: Sequence[SpiPort | None]
    """None for a device without one."""


@dataclass(frozen=True, slots=True)
class AddedOptions:
    """A group of options of an add-on; what it does not override changes nothing."""

    def boards(self, boards: Sequence[Board]) -> Sequence[Board]:
        """Return the boards with the changes of the options. Raises click.UsageError for impossible ones."""
        return boards

    @asynccontextmanager
    async def beside(self, devices: Sequence[Device], ports: Ports) -> AsyncIterator[tuple[Self, Ports]]:
        """Enter what lasts as long as devices run; what follows the yield comes before the devices end.

        Yields the options that serve these devices, and the ports that hosts drive in place of `ports`.
        Raises OSError.
        """
        _ = devices
        yield self, ports

    async def serve(
        self, devices: Sequence[Device], usb: Sequence[HostPort], nursery: trio.Nursery, listen: Listen
    ) -> Sequence[Served]:
        """Start its servers for the devices and the ports that hosts drive; return them. Raises OSError."""
        _ = devices, usb, nursery, listen
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


def show_hints(servers: Sequence[Served]) -> None:
    """Print what a user may do with servers to standard error."""
    for served in servers:
        if served.hint:
            print(f"aisrv: {served.hint}", file=sys.stderr, flush=True)


def changed_boards(boards: Sequence[Board], added: Sequence[AddedOptions]) -> Sequence[Board]:
    """Return the boards with the changes of all the options. Raises click.UsageError."""
    for options in added:
        boards = options.boards(boards)
    return boards
