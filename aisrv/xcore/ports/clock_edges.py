"""The edges of a clock signal that is periodic: arithmetic in place of a list."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct


class ClockEdges(Struct, frozen=True):
    """A clock, low at `origin`: falling edge k is k periods later, the rising one half a period before.

    Ticks are of 10 ns. Edges between two ticks are at the later one: both edges of 100 MHz are in one tick,
    the rising one first. A period is `numerator` / `denominator` ticks.
    """

    origin: int
    numerator: int
    denominator: int = 1
    rise_delay: int = 0
    """In parts of a tick, of which there are `denominator`."""
    fall_delay: int = 0
    lag: ClassVar[int] = 0
    """How many falling edges come before the first rising one."""

    def falling(self, k: int) -> int:
        """Return the tick of falling edge `k`, the first of which is 1."""
        return self.origin - (-(k * self.numerator + self.fall_delay) // self.denominator)

    def rising(self, k: int) -> int:
        """Return the tick of the rising edge before falling edge `k`."""
        return self.origin - (-((2 * k - 1) * self.numerator + 2 * self.rise_delay) // (2 * self.denominator))

    def falling_until(self, tick: int) -> int:
        """Count the falling edges up to a tick, with it."""
        return max(((tick - self.origin) * self.denominator - self.fall_delay) // self.numerator, 0)

    def rising_until(self, tick: int) -> int:
        """Count the rising edges up to a tick, with it."""
        past = 2 * ((tick - self.origin) * self.denominator - self.rise_delay)
        return max((past // self.numerator + 1) // 2, 0)

    def level(self, tick: int) -> int:
        """Return the level after the edges at a tick."""
        return int(self.rising_until(tick) > self.falling_until(tick))

    def next_change(self, tick: int) -> int | None:
        """Return the first tick after `tick` whose level is another one; None where levels never differ."""
        level = self.level(tick)
        k = self.falling_until(tick) + 1
        for later in range(k, k + self.denominator + 2):  # after which the ticks of edges repeat
            for edge in (self.rising(later), self.falling(later)):
                if edge > tick and self.level(edge) != level:
                    return edge
        return None

    def last_change(self, tick: int) -> int:
        """Return the tick of the last edge up to a tick, with it; the origin where there is none yet."""
        fallen, risen = self.falling_until(tick), self.rising_until(tick)
        fell = self.falling(fallen) if fallen else self.origin
        return max(fell, self.rising(risen)) if risen else fell

    def periodic(self) -> tuple["ClockEdges", bool, int]:
        """Return itself, as all its edges are its own."""
        return self, False, self.origin

    def falling_ticks(self, first: int, end: int) -> Sequence[int]:
        """Return the ticks of falling edges from `first` up to `end`, without it."""
        if self.denominator == 1:
            return range(self.falling(first), self.falling(end), self.numerator)
        return [self.falling(k) for k in range(first, end)]
