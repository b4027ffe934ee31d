"""Mutual exclusion of tasks that are not all cores: `trio.Lock`, in the order of the node.

A tile has hardware locks for its cores, `aisrv.xcore.lock`; this is for the tasks within a core, and for what
cores and the outside share, such as a flash chip.
"""

from collections import deque
from types import TracebackType
from typing import Final

from aisrv.xcore.runtime import Parking, Runtime


class Mutex:
    """Held by one task at a time, granted in the order of asking."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        """Belong to a node; `name` is what reports call it."""
        self.name: Final = name
        self._runtime = runtime
        self._is_held = False
        self._waiting: deque[Parking[None]] = deque()

    async def acquire(self) -> None:
        """Take it, or wait for it; a wait that is cancelled leaves the queue."""
        if not self._is_held:
            self._is_held = True
            return
        place: Parking[None] = self._runtime.parking(self._runtime)
        self._waiting.append(place)
        await place.park("acquire", self, lambda: self._waiting.remove(place), timed=True)

    def release(self) -> None:
        """Give it to the next in line."""
        if self._waiting:
            self._waiting.popleft().wake(None)
        else:
            self._is_held = False

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
