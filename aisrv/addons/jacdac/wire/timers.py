"""Deadlines of a device in microseconds, as a state machine: whoever drives it says what time it is."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

MILLISECOND: Final = 1000
SECOND: Final = 1_000_000


class Timer:
    """One deadline; `cancel` before it and nothing happens."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    @property
    def is_pending(self) -> bool:
        """Return whether it has neither run nor been canceled."""
        return self._action is not None

    def cancel(self) -> None:
        """Forget it. Canceling again does nothing."""
        self._action = None

    def run(self) -> None:
        """Do what it is for, once."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Timers:
    """The deadlines of a device and its time, which begins at 0."""

    def __init__(self) -> None:
        self.now = 0
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = count()

    @property
    def next_deadline(self) -> int | None:
        """When `advance` is to be called again at the latest; None while nothing is waited for."""
        while self._queue and not self._queue[0][2].is_pending:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def after(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` when `delay` microseconds have passed."""
        timer = Timer(action)
        heapq.heappush(self._queue, (self.now + delay, next(self._order), timer))
        return timer

    def advance(self, now: int) -> None:
        """Let the time go on to `now`, and run the actions that are due, each at its own time."""
        while (deadline := self.next_deadline) is not None and deadline <= now:
            _, _, timer = heapq.heappop(self._queue)
            self.now = max(self.now, deadline)
            timer.run()
        self.now = max(self.now, now)
