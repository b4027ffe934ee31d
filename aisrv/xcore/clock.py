"""The 100 MHz reference clock: a tick is 10 ns of Trio's clock, live or virtual."""

import math
from typing import Any, Final

import trio

TICKS_PER_SECOND: Final = 100_000_000
POLL_TICKS: Final = 100
"""Virtual time of a default case in a polling loop: about that of a small loop of the firmware."""
_FINE_SECONDS: Final = 1 << 21
"""Up to there, 24 days, Trio's time tells some 50 parts of a tick apart, or more."""
_ROUNDING: Final = 0.05
"""Of a tick: up to there a time so little before a tick is that tick, as the sums of floats come out that a
`trio.sleep` makes; the error of one float is well below that."""


class Clock:
    """The reference clock of a node: whole ticks since the node started.

    Trio's time is a float, which 97 days from its zero tells five parts of a tick apart, and after two years
    not all ticks. So whole numbers decide: tick n begins at the first of Trio's times that is not before it.
    None is early, and each one comes.
    """

    def __init__(self, origin: float | None = None) -> None:
        """Start at a time of Trio's clock, the present one by default."""
        self._origin = trio.current_time() if origin is None else origin
        numerator, self._denominator = self._origin.as_integer_ratio()
        self._numerator = numerator * TICKS_PER_SECOND
        self._below = self._denominator * TICKS_PER_SECOND
        threshold: float = getattr(trio.lowlevel.current_clock(), "autojump_threshold", math.inf)
        self.is_virtual: Final = threshold < math.inf
        """Whether time passes while all tasks wait, as on an autojumping `MockClock`, or by `leave_tick`."""
        self._read, self._tick = self._origin, 0

    def ticks(self) -> int:
        """Ticks since the node started; does not wrap."""
        time = trio.current_time()
        if time < _FINE_SECONDS:
            return int((time - self._origin) * TICKS_PER_SECOND + _ROUNDING)
        if time != self._read:
            self._read, self._tick = time, self._tick_at(time)
        return self._tick

    def deadline(self, ticks: int) -> float:
        """Trio's time at which that tick begins, rounded up; of the whole count, so that nothing drifts."""
        above = self._numerator + ticks * self._denominator
        time = above / self._below
        numerator, denominator = time.as_integer_ratio()
        return time if numerator * self._below >= above * denominator else math.nextafter(time, math.inf)

    @property
    def origin(self) -> float:
        """Trio's time at tick 0."""
        return self._origin

    def first_tick_at(self, time: float) -> int:
        """Return the first tick that is not before a time of Trio's clock, as `ticks` would read it."""
        if time < _FINE_SECONDS:
            return math.ceil((time - self._origin) * TICKS_PER_SECOND - _ROUNDING)
        tick = self._tick_at(time)
        return tick if self.deadline(tick) >= time else tick + 1

    def leave_tick(self, tick: int) -> int:
        """Begin the next tick of virtual time where that one is now; return the present one."""
        now = self.ticks()
        if now != tick:
            return now
        virtual: Any = trio.lowlevel.current_clock()
        virtual.jump(self.deadline(now + 1) - trio.current_time())
        return self.ticks()

    def _tick_at(self, time: float) -> int:
        """Return the last tick that has begun at a time of Trio's clock."""
        numerator, denominator = time.as_integer_ratio()
        passed = numerator * self._below - self._numerator * denominator
        return passed // (denominator * self._denominator)


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
