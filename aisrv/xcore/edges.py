"""Edges of a clock block by number: what a port needs to know of its clock.

Edges are counted from when the block was started: falling edge 1 is the first. A source says None of an edge
that is not known yet. `ClockEdges` is the one of the reference clock; here are the others.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Protocol

from aisrv.xcore.clock_edges import ClockEdges
from aisrv.xcore.pin import HIGH, Pin

_KEPT: Final = 4096
"""Edges of the past that are kept, more than the bits of some words."""


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


class LaterEdges:
    """The edges of a periodic clock after a tick, counted from there."""

    def __init__(self, edges: ClockEdges, start: int) -> None:
        self._edges = edges
        self._falling = edges.falling_until(start)
        self._rising = edges.rising_until(start)
        self.lag: Final = self._rising - self._falling
        """1 where the clock is high at the start."""

    def falling(self, k: int) -> int:
        """Return the tick of falling edge `k`."""
        return self._edges.falling(k + self._falling)

    def rising(self, k: int) -> int:
        """Return the tick of rising edge `k`."""
        return self._edges.rising(k + self._rising)

    def falling_until(self, tick: int) -> int:
        """Count the falling edges up to a tick, with it."""
        return max(self._edges.falling_until(tick) - self._falling, 0)

    def rising_until(self, tick: int) -> int:
        """Count the rising edges up to a tick, with it."""
        return max(self._edges.rising_until(tick) - self._rising, 0)

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:
        """Return the ticks of falling edges from `first` up to `end`."""
        return self._edges.falling_ticks(first + self._falling, end + self._falling)


class PinEdges:
    """The edges at a pin, as far as its changes are known."""

    def __init__(self, pin: Pin, start: int, *, inverted: bool) -> None:
        self.pin: Final = pin
        self._inverted = inverted
        self._read = start
        self._level = self._bit(start)
        self.lag: Final = self._level
        """1 where the pin is high at the start."""
        self._ticks: tuple[list[int], list[int]] = ([], [])
        self._dropped = [0, 0]

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
        dropped = self._dropped[0]
        return self._ticks[0][first - 1 - dropped : end - 1 - dropped]

    def changed_from(self, tick: int) -> None:
        """Read the pin anew from a tick on, which may be before what was read."""
        if tick > self._read:
            return
        for ticks in self._ticks:
            while ticks and ticks[-1] >= tick:
                ticks.pop()
        self._read = tick - 1
        self._level = self._bit(tick - 1)

    def _bit(self, tick: int) -> int:
        return int(self.pin.value(tick) == HIGH) ^ self._inverted

    def _advance(self) -> bool:
        """Read the next change of the pin; False where none is known."""
        changed = self.pin.next_change(self._read)
        if changed is None:
            return False
        self._read = changed
        level = self._bit(changed)
        if level != self._level:
            self._level = level
            self._ticks[level].append(changed)
        return True

    def _edge(self, level: int, k: int) -> int | None:
        ticks = self._ticks[level]
        at = k - 1 - self._dropped[level]
        while at >= len(ticks):
            if not self._advance():
                return None
        return ticks[at]

    def _until(self, level: int, tick: int) -> int:
        ticks = self._ticks[level]
        while self._read < tick:
            changed = self.pin.next_change(self._read)
            if changed is None or changed > tick:
                break
            self._advance()
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
