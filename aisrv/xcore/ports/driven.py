"""One driver of a pin: its levels over time."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Protocol

from aisrv.xcore.ports.clock_edges import ClockEdges

RELEASED: Final = 2
"""The level of a pin that the driver does not drive."""


class Driver(Protocol):
    """Whoever drives a pin. One with a true `open_drain` drives 0 alone: its 1 is that of a pull-up."""

    @property
    def name(self) -> str:
        """Name, as messages give it."""


class Driven:
    """A sorted list of changes, and a periodic clock after it where the driver drives one."""

    __slots__ = ("_clock", "_inverted", "_levels", "_since", "_ticks", "driver", "is_weak", "kept_since")

    def __init__(self, driver: Driver) -> None:
        self.driver: Final = driver
        self.is_weak: Final = bool(getattr(driver, "is_weak", False))
        """Whether it loses against any other that drives."""
        self._ticks: list[int] = []
        self._levels: list[int] = []
        self._clock: ClockEdges | None = None
        self._since = 0
        self._inverted = False
        self.kept_since: int | None = None
        """Tick from which on somebody wants the past; None where nobody does."""

    @property
    def open_drain(self) -> bool:
        """Return whether its 1 is that of a pull-up."""
        return bool(getattr(self.driver, "open_drain", False))

    def __len__(self) -> int:
        return len(self._ticks)

    def level(self, tick: int) -> int:
        """Return the level at the end of a tick."""
        clock = self._clock
        if clock is not None and tick >= self._since:
            return clock.level(tick) ^ self._inverted
        ticks = self._ticks
        if not ticks or tick < ticks[0]:
            return RELEASED
        if tick >= ticks[-1]:
            return self._levels[-1]
        return self._levels[bisect_right(ticks, tick) - 1]

    def put(self, tick: int, level: int) -> None:
        """Have a level from a tick on, to the next change that there is."""
        clock = self._clock
        if clock is not None and tick >= self._since:
            self.cut(tick - 1)
        ticks = self._ticks
        if not ticks or tick > ticks[-1]:
            ticks.append(tick)
            self._levels.append(level)
            return
        at = bisect_right(ticks, tick)
        if at and ticks[at - 1] == tick:
            self._levels[at - 1] = level
        else:
            ticks.insert(at, tick)
            self._levels.insert(at, level)

    def put_all(self, ticks: Sequence[int], levels: Sequence[int]) -> None:
        """Have each level from its tick on; ticks ascend."""
        if self._clock is None and (not self._ticks or ticks[0] >= self._ticks[-1]):
            self._ticks.extend(ticks)
            self._levels.extend(levels)
            return
        for tick, level in zip(ticks, levels, strict=True):
            self.put(tick, level)

    def put_clock(self, edges: ClockEdges, since: int, *, inverted: bool) -> None:
        """Have a periodic clock from a tick on, in place of what is there."""
        self.cut(since - 1)
        self._clock, self._since, self._inverted = edges, since, inverted

    def clock_at(self, tick: int) -> tuple[ClockEdges, bool] | None:
        """Return the periodic clock that drives from a tick on, and whether it is inverted."""
        clock = self._clock
        return None if clock is None or tick < self._since else (clock, self._inverted)

    def cut(self, tick: int) -> bool:
        """Forget what is later than a tick, and return whether anything was."""
        clock = self._clock
        if clock is not None:
            self._clock = None
            begin = self._since
            if tick < begin:
                self.cut(tick)
                return True
            self.put(begin, clock.level(begin) ^ self._inverted)
            since = clock.last_change(tick)  # from there on somebody waits for the next one
            if self.kept_since is not None:
                since = min(since, self.kept_since)
            edge: int | None = max(since - 1, begin)
            while (edge := None if edge is None else clock.next_change(edge)) is not None and edge < tick:
                self.put(edge, clock.level(edge) ^ self._inverted)
            self.put(tick, clock.level(tick) ^ self._inverted)
            return True
        at = bisect_right(self._ticks, tick)
        if at == len(self._ticks):
            return False
        del self._ticks[at:], self._levels[at:]
        return True

    def next_change(self, tick: int) -> int | None:
        """Return the first tick after `tick` at which the driver's level may be another one."""
        at = bisect_right(self._ticks, tick)
        if at < len(self._ticks):
            return self._ticks[at]
        clock = self._clock
        if clock is None:
            return None
        return self._since if tick < self._since else clock.next_change(tick)

    def drop_before(self, tick: int) -> None:
        """Forget changes before a tick but the last of them."""
        at = bisect_right(self._ticks, tick) - 1
        if at > 0:
            del self._ticks[:at], self._levels[:at]
