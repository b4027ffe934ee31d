"""When deadlocks are looked for: a while after a core has parked, in one task for all nodes that share it."""

from collections import deque
from typing import Final, Protocol

import trio

WATCH_SECONDS: Final = 1.0
"""Time from when a core parks to when deadlocks are looked for, so that this costs a busy node little."""


class Watched(Protocol):
    """A node's runtime, as the watch looks at it."""

    def look(self) -> None:
        """Look for a deadlock."""


class DeadlockWatch:
    """Looks at nodes `WATCH_SECONDS` after they ask for it. It has a task while one waits to be looked at."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._due: deque[tuple[float, Watched]] = deque()

    def look_later(self, watched: Watched) -> None:
        """Look at a node once, `WATCH_SECONDS` from now."""
        if not self._due:
            self._nursery.start_soon(self._look_when_due, name="deadlock watch")
        self._due.append((trio.current_time() + WATCH_SECONDS, watched))

    async def _look_when_due(self) -> None:
        due = self._due
        try:
            while due:
                deadline, watched = due[0]
                await trio.sleep_until(deadline)
                watched.look()
                due.popleft()
        finally:
            due.clear()
