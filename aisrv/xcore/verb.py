"""A verb in progress on a channel end: steps that run on as tokens come, and the core that waits."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import outcome

from aisrv.xcore.core import Parking

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

RESOURCE_TYPE: Final = 2
"""Bits 0 to 7 of the resource id of a channel end."""

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A verb in steps: yields where it must wait for tokens or room, returns the verb's result."""


class SteppedResource:
    """A channel end as far as verbs in steps are concerned: its name, and the verb that a core is in."""

    __slots__ = (
        "_error",
        "_node",
        "_parking",
        "_result",
        "_steps",
        "_switch",
        "number",
        "resource_id",
        "tile",
    )

    def __init__(self, tile: "Tile", number: int) -> None:
        self.tile: Final = tile
        self.number: Final = number
        self.resource_id: Final = tile.resource_id(RESOURCE_TYPE, number)
        self._node = tile.node
        self._switch = tile.node.switch
        self._steps: Steps[Any] | None = None
        self._result: Any = None  # of a verb that was done without parking
        self._error: Exception | None = None
        self._parking = Parking(tile.node)

    @property
    def name(self) -> str:
        """Name with resource id, as traps and reports give it."""
        return f"chanend 0x{self.resource_id:08x}"

    async def perform(self, verb: str, steps: Steps[T]) -> T:
        """Carry out a verb made of steps; the task sleeps until all of them are done.

        A verb that need not wait is done at once and lets nobody else run; where it waits it can be
        cancelled. The buffer is so small that no pair of cores goes far without waiting.
        """
        self._check_usable(verb)
        self._steps = steps
        self._switch.step(self)
        result: T
        if self._steps is not None:
            result = await self._parking.park(verb, self, self._withdraw)
            return result
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        result, self._result = self._result, None
        return result

    def advance(self) -> None:
        """Step the verb in progress, if any, as far as its tokens and room allow."""
        if self._steps is None:
            return
        try:
            self._steps.send(None)
        except StopIteration as done:
            self._steps = None
            if self._parking.task is not None:
                self._parking.wake(outcome.Value(done.value))
            else:
                self._result = done.value
        except Exception as error:  # the caller of the verb gets it, not the task that made it go on
            self._steps = None
            if self._parking.task is not None:
                self._parking.wake(outcome.Error(error))
            else:
                self._error = error

    def _check_usable(self, verb: str) -> None:
        """Trap where the verb may not begin now."""

    def _withdraw(self) -> None:
        """Undo what a cancelled verb has not finished."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()
