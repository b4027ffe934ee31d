"""Signals between the tasks of a core, or from outside to one: `trio.Event`, in the order of the node."""

from typing import Final

from aisrv.xcore.runtime import Runtime


class Signal:
    """Wakes the one task that waits for it; where none does, the next wait returns at once.

    In device time the task goes on in its turn, at the clock of who set the signal.
    """

    def __init__(self, runtime: Runtime, name: str) -> None:
        """Belong to a node; `name` is what reports call it."""
        self.name: Final = name
        self._parking = runtime.parking(runtime)
        self._is_set = False

    def set(self) -> None:
        """Wake the task that waits, or have the next one not wait."""
        self._is_set = True
        self._parking.wake(None)

    def clear(self) -> None:
        """Have the next wait last until the next `set`."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait until it is set, and clear it."""
        if not self._is_set:
            await self._parking.park("wait", self, timed=True)
        self._is_set = False
