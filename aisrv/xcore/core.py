"""Logical cores: a Trio task with a number, a name, and what it waits for."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol

import trio

from aisrv.xcore.clock import Poll
from aisrv.xcore.traps import Trap, TrapKind

_current: ContextVar["Core | None"] = ContextVar("current_core", default=None)


class Resource(Protocol):
    """Whatever a core can wait for: its name stands in traps, traces and deadlock reports."""

    @property
    def name(self) -> str:
        """Name of the resource, such as `chanend 0x80000102`."""


class InterruptSources(Protocol):
    """The interrupts of a core, as the core knows them."""

    def interrupters(self) -> Sequence["Core | None"]:
        """Return the cores of which any could interrupt now; None is somebody outside."""

    def explain_interrupts(self) -> str:
        """Name the callbacks that may run, and on what; empty where none may."""


class Core:
    """One logical core of a tile."""

    __slots__ = (
        "_poll",
        "below",
        "has_ended",
        "interrupts",
        "name",
        "number",
        "task",
        "tile",
        "trap",
        "verb",
        "waits_on",
    )

    def __init__(self, tile: int, number: int, name: str, below: "Core | None" = None) -> None:
        self.tile: Final = tile
        """The tile's number."""
        self.number: Final = number
        self.name: Final = name
        self.below: Final = below
        """The core as it was interrupted, where this one is its callback."""
        self.task: trio.lowlevel.Task | None = None
        self.verb: str | None = None
        """The verb it is parked in, None while it runs."""
        self.waits_on: Resource | None = None
        self.trap: Trap | None = None
        """The trap that halted it; None while it is not halted."""
        self._poll: Poll | None = None
        self.has_ended = False
        """Whether its task returned, trapped or was cancelled."""
        self.interrupts: InterruptSources | None = None
        """Its interrupts; None where it is not interruptible."""

    def __str__(self) -> str:
        below = self.below
        if below is None:
            return f"tile {self.tile} core {self.number} ({self.name})"
        what = self.name if below.verb in (None, INTERRUPT) else f"{self.name} in {below.verb}"
        return f"tile {self.tile} core {self.number} ({below.name}, {what})"

    def callback(self, name: str) -> "Core":
        """Make what a callback that interrupts it is to resources and reports."""
        callback = type(self)(self.tile, self.number, name, self)
        callback.interrupts = self.interrupts
        return callback

    @property
    def poll(self) -> Poll:
        """Its polling loops on virtual time."""
        if self._poll is None:
            self._poll = Poll()
        return self._poll

    def enter(self) -> None:
        """Register the running task as this core."""
        _current.set(self)
        self.task = trio.lowlevel.current_task()


INTERRUPT: Final = "interrupt"
"""In place of its verb, where a core waits for its callback: what it waited for came meanwhile."""


current_core: Final = _current.get
"""Return the core that the running task is, None outside of any core."""


User = Core | trio.lowlevel.Task
"""Who uses a resource: a core, or a task outside of any core."""


def current_user() -> User:
    """Return the core that the running task is, or the task itself outside of any core."""
    return _current.get() or trio.lowlevel.current_task()


def check_tile(tile: int, place: str) -> None:
    """Trap with ILLEGAL_RESOURCE where the running core is not of that tile; `place` is verb and resource."""
    core = current_core()
    if core is not None and core.tile != tile:
        reason = f"{place}, which belongs to tile {tile}, by {core}"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, reason, place)
