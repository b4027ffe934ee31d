"""The 100 MHz reference clock: a tick is 10 ns of Trio's clock, live or virtual."""

import math
from typing import Any, Final

import trio

TICKS_PER_SECOND: Final = 100_000_000
POLL_TICKS: Final = 100
"""Virtual time of a default case in a polling loop: about that of a small loop of the firmware."""
_ROUNDING: Final = 0.05  # ticks: well above a float's error on a clock of some days, well below one tick


class Clock:
    """The reference clock of a node: whole ticks since the node started."""

    def __init__(self) -> None:
        self._origin = trio.current_time()
        threshold: float = getattr(trio.lowlevel.current_clock(), "autojump_threshold", math.inf)
        self.is_virtual: Final = threshold < math.inf
        """Whether time passes while all tasks wait, as on an autojumping `MockClock`, or by `leave_tick`."""

    def ticks(self) -> int:
        """Ticks since the node started; does not wrap."""
        return int((trio.current_time() - self._origin) * TICKS_PER_SECOND + _ROUNDING)

    def deadline(self, ticks: int) -> float:
        """Trio's time at which that tick begins: converted from the whole count, so that nothing drifts."""
        return self._origin + ticks / TICKS_PER_SECOND

    def leave_tick(self, tick: int) -> int:
        """Begin the next tick of virtual time where that one is now; return the present one."""
        now = self.ticks()
        if now != tick:
            return now
        virtual: Any = trio.lowlevel.current_clock()
        virtual.jump(self.deadline(now + 1) - trio.current_time())
        return now + 1


class Poll:
    """How long a task has taken the default case of selects, on virtual time, which that alone lets pass.

    A default takes time where the one before it was at the same tick: a microsecond, and in the long run a
    64th of the time since the first.
    """

    __slots__ = ("_last", "_since")

    def __init__(self) -> None:
        self._since = self._last = -1

    def step(self, now: int) -> int:
        """Return the ticks that a default case takes which is taken at tick `now`; 0 for none."""
        if now != self._last:  # time has passed by itself since
            self._since = self._last = now
            return 0
        step = max(POLL_TICKS, (now - self._since) // 64)
        self._last = now + step
        return step

    def end(self) -> None:
        """Note that an event was taken."""
        self._since = self._last = -1
