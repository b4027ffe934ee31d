"""Edges of a clock block by number: what a port needs to know of its clock.

Edges are counted from when the block was started: falling edge 1 is the first. A source says None of an edge
that is not known yet. `ClockEdges` is the one of the reference clock; here are the others.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Protocol

from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.pin import HIGH, Pin

_KEPT: Final = 4096
"""Edges of the past that are kept, more than the bits of some words."""


Periodic = tuple[ClockEdges, bool, int]
"""A clock, whether it is inverted, and the tick from which on it has the edges."""


class Edges(Protocol):
    """The edges of a clock; ticks are of 10 ns."""

    @property
    def lag(self) -> int:
        """How many falling edges come before the first rising one: 0 or 1."""

    def falling(self, k: int) -> int | None:
        """Return the tick of falling edge `k`; None where it is not known yet."""

    def rising(self, k: int) -> int | None:
        """Return the tick of rising edge `k`; None where it is not known yet."""

    def falling_until(self, tick: int) -> int:
        """Count the falling edges up to a tick, with it."""

    def rising_until(self, tick: int) -> int:
        """Count the rising edges up to a tick, with it."""

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:
        """Return the ticks of falling edges from `first` up to `end`, without it, as far as known."""

    def periodic(self) -> Periodic | None:
        """Return the clock whose edges they are from some tick on, as far as is known."""


class NoEdges:
    """A clock that stands still."""

    lag: Final = 0

    def falling(self, k: int) -> None:  # noqa: ARG002 - as in Edges
        """Return None."""
        return

    def rising(self, k: int) -> None:  # noqa: ARG002 - as in Edges
        """Return None."""
        return

    def falling_until(self, tick: int) -> int:  # noqa: ARG002 - as in Edges
        """Return 0."""
        return 0

    def rising_until(self, tick: int) -> int:  # noqa: ARG002 - as in Edges
        """Return 0."""
        return 0

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:  # noqa: ARG002 - as in Edges
        """Return none."""
        return ()

    def periodic(self) -> None:
        """Return None."""
        return


class _PeriodicEdges:
    """The edges of a periodic clock after a tick, which go on from counts of falling and rising ones."""

    def __init__(self, clock: ClockEdges, start: int, counts: tuple[int, int], *, inverted: bool) -> None:
        self.start: Final = start
        self.clock: Final = clock
        self.inverted: Final = inverted
        tick_of, until = (clock.falling, clock.rising), (clock.falling_until, clock.rising_until)
        self._tick_of = tick_of[::-1] if inverted else tick_of
        self._until = until[::-1] if inverted else until
        self._after = [self._until[level](start) - counts[level] for level in (0, 1)]
        self._ranges = None if inverted else clock.falling_ticks

    def divided(self, divide: int) -> ClockEdges:
        """Return the clock whose edges are at each count of rising edges, from 0 on."""
        clock, after = self.clock, self._after[1]
        delay = 2 * (after * clock.numerator + clock.fall_delay)
        if not self.inverted:
            delay = (2 * after - 1) * clock.numerator + 2 * clock.rise_delay
        return ClockEdges(clock.origin, 4 * divide * clock.numerator, 2 * clock.denominator, delay, delay)

    def edge(self, level: int, k: int) -> int:
        """Return the tick of edge `k` to a level."""
        return self._tick_of[level](k + self._after[level])

    def until(self, level: int, tick: int) -> int:
        """Count the edges to a level up to a tick, not before the start."""
        return self._until[level](tick) - self._after[level]

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:
        """Return the ticks of falling edges from `first` up to `end`, without it."""
        if self._ranges is not None:
            return self._ranges(first + self._after[0], end + self._after[0])
        return [self.edge(0, k) for k in range(first, end)]


class PinEdges:
    """The edges at a pin, as far as its changes are known; by arithmetic where a periodic clock drives it."""

    def __init__(self, pin: Pin, start: int, *, inverted: bool) -> None:
        self.pin: Final = pin
        self._inverted = inverted
        self._turned = -1  # when it was inverted last
        self._read = start
        self._level = self._bit(start)
        self.lag: Final = self._level
        """1 where the pin is high at the start."""
        self._ticks: tuple[list[int], list[int]] = ([], [])
        self._dropped = [0, 0]
        self._periodic: _PeriodicEdges | None = None
        """The edges later than what is read, where a periodic clock drives the pin from there on."""
        self._look_for_clock()

    def falling(self, k: int) -> int | None:
        """Return the tick of falling edge `k`; None where it is not known yet."""
        return self._edge(0, k)

    def rising(self, k: int) -> int | None:
        """Return the tick of rising edge `k`; None where it is not known yet."""
        return self._edge(1, k)

    def falling_until(self, tick: int) -> int:
        """Count the falling edges up to a tick, with it."""
        return self._until(0, tick)

    def rising_until(self, tick: int) -> int:
        """Count the rising edges up to a tick, with it."""
        return self._until(1, tick)

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:
        """Return the ticks of falling edges from `first` up to `end`, as far as they are known."""
        self._edge(0, end - 1)
        if self._periodic is None:
            dropped = self._dropped[0]
            return self._ticks[0][first - 1 - dropped : end - 1 - dropped]
        if first > self._listed(0):
            return self._periodic.falling_ticks(first, end)
        return [tick for k in range(first, end) if (tick := self._edge(0, k)) is not None]

    def periodic(self) -> Periodic | None:
        """Return the clock whose edges they are from some tick on, as far as is known."""
        found = self._periodic
        return None if found is None else (found.clock, found.inverted, found.start)

    def periodic_divided(self, divide: int) -> Periodic | None:
        """Return the clock that has their count of rising edges divided, from some tick on."""
        found = self._periodic
        return None if found is None else (found.divided(divide), False, found.start)

    def changed_from(self, tick: int) -> None:
        """Read the pin anew from a tick on, which may be before what was read."""
        if tick > self._read and self._periodic is None:
            return
        self._list_periodic(tick - 1)
        for ticks in self._ticks:
            while ticks and ticks[-1] >= tick:
                ticks.pop()
        self._read = tick - 1
        self._level = self._bit(tick - 1)
        if tick == self._turned:
            self._read = tick
            self._see(self._bit(tick), tick)

    def invert(self, tick: int) -> None:
        """Read the opposite from a tick on, which is an edge at it."""
        self._until(0, tick)
        self.changed_from(tick + 1)
        self._inverted, self._turned = not self._inverted, tick
        self._read = tick
        self._see(self._bit(tick), tick)
        self._look_for_clock()

    def _bit(self, tick: int) -> int:
        return int(self.pin.value(tick) == HIGH) ^ self._inverted ^ (tick < self._turned)

    def _advance(self) -> bool:
        """Read the next change of the pin; False where none is known."""
        changed = self.pin.next_change(self._read)
        if changed is None:
            return False
        self._read = changed
        self._see(self._bit(changed), changed)
        self._look_for_clock()
        return True

    def _see(self, level: int, tick: int) -> None:
        if level != self._level:
            self._level = level
            self._ticks[level].append(tick)

    def _look_for_clock(self) -> None:
        driven = self.pin.clock_driven(self._read)
        if driven is not None:
            clock, inverted = driven
            counts = self._listed(0), self._listed(1)
            self._periodic = _PeriodicEdges(clock, self._read, counts, inverted=inverted != self._inverted)

    def _list_periodic(self, tick: int) -> None:
        """List what the periodic clock has done up to a tick, as it ends there."""
        periodic, self._periodic = self._periodic, None
        if periodic is None or tick <= periodic.start:
            return
        for level in (0, 1):
            ticks, last = self._ticks[level], periodic.until(level, tick)
            first = max(self._listed(level) + 1, last - _KEPT + 1)
            if first > self._listed(level) + 1:
                ticks.clear()
            ticks.extend(periodic.edge(level, k) for k in range(first, last + 1))
            self._dropped[level] = last - len(ticks)

    def _listed(self, level: int) -> int:
        return self._dropped[level] + len(self._ticks[level])

    def _edge(self, level: int, k: int) -> int | None:
        while k > self._listed(level):
            if self._periodic is not None:
                return self._periodic.edge(level, k)
            if not self._advance():
                return None
        at = k - 1 - self._dropped[level]
        return self._ticks[level][max(at, 0)]  # of those that are too long ago, the oldest one kept

    def _until(self, level: int, tick: int) -> int:
        ticks = self._ticks[level]
        while self._read < tick and self._periodic is None:
            changed = self.pin.next_change(self._read)
            if changed is None or changed > tick:
                break
            self._advance()
        if self._periodic is not None and tick >= self._periodic.start:
            return self._periodic.until(level, tick)
        if len(ticks) > 2 * _KEPT and ticks[-_KEPT] < tick:
            self._dropped[level] += len(ticks) - _KEPT
            del ticks[:-_KEPT]
        return self._dropped[level] + bisect_right(ticks, tick)


class DividedEdges:
    """Each edge at a count of another clock's rising edges."""

    lag: Final = 0

    def __init__(self, edges: PinEdges, divide: int) -> None:
        self._edges = edges
        self._divide = divide

    def falling(self, k: int) -> int | None:
        """Return the tick of falling edge `k`; None where it is not known yet."""
        return self._edges.rising(2 * k * self._divide)

    def rising(self, k: int) -> int | None:
        """Return the tick of rising edge `k`; None where it is not known yet."""
        return self._edges.rising((2 * k - 1) * self._divide)

    def falling_until(self, tick: int) -> int:
        """Count the falling edges up to a tick, with it."""
        return self._edges.rising_until(tick) // self._divide // 2

    def rising_until(self, tick: int) -> int:
        """Count the rising edges up to a tick, with it."""
        return (self._edges.rising_until(tick) // self._divide + 1) // 2

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:
        """Return the ticks of falling edges from `first` up to `end`, as far as they are known."""
        ticks = (self.falling(k) for k in range(first, end))
        return [tick for tick in ticks if tick is not None]

    def periodic(self) -> Periodic | None:
        """Return the clock whose edges they are from some tick on, as far as is known."""
        return self._edges.periodic_divided(self._divide)
