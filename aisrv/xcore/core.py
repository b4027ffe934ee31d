"""Logical cores, and the one way in which a core parks on a resource.

A resource wakes a parked core at most once; what it was woken for travels as an `outcome`. Cores of
a node are counted as they park and wake, so that a deadlock is seen the moment it happens.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

import outcome
import trio

if TYPE_CHECKING:
    from aisrv.xcore.node import Node
    from aisrv.xcore.tile import Tile

_current: ContextVar["Core | None"] = ContextVar("current_core", default=None)


class Resource(Protocol):
    """Whatever a core can wait for: its name stands in traps, traces and deadlock reports."""

    @property
    def name(self) -> str:
        """Name of the resource, such as `chanend 0x80000102`."""


class Core:
    """One logical core of a tile: a Trio task with a number, a name, and what it waits for."""

    __slots__ = ("name", "number", "task", "tile", "verb", "waits_on")

    def __init__(self, tile: "Tile", number: int, name: str) -> None:
        self.tile: Final = tile
        self.number: Final = number
        self.name: Final = name
        self.task: trio.lowlevel.Task | None = None
        self.verb: str | None = None
        """The verb it is parked in, None while it runs."""
        self.waits_on: Resource | None = None

    def __str__(self) -> str:
        return f"tile {self.tile.number} core {self.number} ({self.name})"

    def enter(self) -> None:
        """Make the running task this core."""
        _current.set(self)
        self.task = trio.lowlevel.current_task()


def current_core() -> Core | None:
    """Return the core that the running task is, None outside of any core."""
    return _current.get()


class Parking:
    """One task waiting for one thing, woken exactly once however many try."""

    __slots__ = ("_core", "_node", "_withdraw", "task")

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._withdraw: Callable[[], None]  # set while parked
        self.task: trio.lowlevel.Task | None = None
        """The task that sleeps, None once it was woken or cancelled."""
        self._core: Core | None = None

    async def park(
        self, verb: str, resource: Resource, withdraw: Callable[[], None], *, timed: bool = False
    ) -> Any:  # noqa: ANN401 - whatever `wake` brings
        """Sleep until `wake`; where the task is cancelled instead, call `withdraw` and let Cancelled rise.

        With `timed` something will wake the core in time: it does not count as parked for ever.
        """
        task = trio.lowlevel.current_task()
        core = _current.get()
        if core is not None and (timed or core.task is not task):
            core = None  # of a child task: the core itself may well be running
        self.task = task
        self._core = core
        if core is not None:
            self._node.core_parked(core, verb, resource)
        self._withdraw = withdraw
        return await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._leave()
        self._withdraw()
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(self, result: outcome.Outcome[Any]) -> None:
        """Let the task run again with `result`; does nothing where it was woken or cancelled already."""
        task = self.task
        if task is not None:
            self._leave()
            trio.lowlevel.reschedule(task, result)

    def _leave(self) -> None:
        self.task = None
        core, self._core = self._core, None
        if core is not None:
            self._node.core_woken(core)
