"""Cores that have had their turn and do not wait again yet, on a live clock: the turns after it are held.

What a core does between two waits mostly lets nobody else run. But one waits for a process, as a tile of C or
an inference is one, which may take longer than on the chip. Time stands still for it, so that the next core
does not act at a tick that this one has not come to; for a second at most, as it may be lost.
"""

import math
from typing import Final

import trio
from trio.lowlevel import Task

MOST_HELD_SECONDS: Final = 1.0
"""Seconds for which turns are held for a core at work; afterwards it is late."""
_NOTHING_BEFORE: Final = -1


class AtWork:
    """Tasks of cores at work, of one node."""

    def __init__(self) -> None:
        self._ticks: dict[Task, int] = {}
        self._expiries: dict[Task, float] = {}
        self._late: set[Task] = set()

    def began(self, task: Task, first: int = _NOTHING_BEFORE) -> None:
        """Note that a task runs on in its turn; before tick `first` others may have theirs meanwhile."""
        self._ticks[task] = first

    def ended(self, task: Task) -> bool:
        """Note that a task waits for its next turn, or ends; return whether turns were held for it."""
        if self._ticks.pop(task, None) is None:
            self._late.discard(task)
        return self._expiries.pop(task, None) is not None

    def promise(self, task: Task, tick: int) -> bool:
        """Note that a task does nothing before a tick; return whether turns were held for it."""
        if task not in self._ticks:
            return False
        self._ticks[task] = tick
        return self._expiries.pop(task, None) is not None

    def takes_late(self, task: Task) -> bool:
        """Return once whether turns were held for a task for so long that others have had theirs."""
        if task not in self._late:
            return False
        self._late.remove(task)
        return True

    @property
    def has_turn(self) -> bool:
        """Return whether one is at work that has promised nothing."""
        return _NOTHING_BEFORE in self._ticks.values()

    def is_alone(self, task: Task) -> bool:
        """Return whether a task alone is at work, and has promised nothing."""
        return len(self._ticks) == 1 and self._ticks.get(task) == _NOTHING_BEFORE

    @property
    def last_tick(self) -> int | None:
        """The last tick to which others may come meanwhile; None where nobody is at work."""
        return min((tick - 1 for tick in self._ticks.values() if tick != _NOTHING_BEFORE), default=None)

    @property
    def expiry(self) -> float:
        """Trio's time up to which turns are held."""
        return min(self._expiries.values(), default=math.inf)

    def holds(self, tick: int) -> bool:
        """Return whether a turn of that tick is held."""
        if not self._ticks:
            return False
        held = False
        now = trio.current_time()
        for task, first in tuple(self._ticks.items()):
            if tick < first:
                continue
            if self._expiries.setdefault(task, now + MOST_HELD_SECONDS) <= now:
                self.ended(task)
                self._late.add(task)
            else:
                held = True
        return held
