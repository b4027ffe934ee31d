"""Edges of a periodic clock by arithmetic, against a walk over them in exact fractions."""

import math
from bisect import bisect_right
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from aisrv.xcore.ports.clock_edges import ClockEdges


@given(
    st.integers(0, 50), st.integers(1, 40), st.integers(1, 8), st.integers(0, 9), st.integers(0, 9), st.data()
)
def test_edges_are_those_of_a_walk(
    origin: int, numerator: int, denominator: int, rise: int, fall: int, data: st.DataObject
) -> None:
    half = Fraction(numerator, 2 * denominator)
    rise, fall = (min(delay, math.ceil(half * denominator) - 1) for delay in (rise, fall))
    edges = ClockEdges(origin, numerator, denominator, rise, fall)
    rising = [math.ceil(origin + (2 * k - 1) * half + Fraction(rise, denominator)) for k in range(1, 500)]
    falling = [math.ceil(origin + 2 * k * half + Fraction(fall, denominator)) for k in range(1, 500)]
    k = data.draw(st.integers(1, 499))
    assert (edges.rising(k), edges.falling(k)) == (rising[k - 1], falling[k - 1])
    levels = []
    for tick in range(origin, origin + 60):
        ups, downs = bisect_right(rising, tick), bisect_right(falling, tick)
        assert (edges.rising_until(tick), edges.falling_until(tick)) == (ups, downs)
        assert edges.level(tick) == int(ups > downs)
        last = max((each for each in (*rising, *falling) if each <= tick), default=origin)
        assert edges.last_change(tick) == last
        levels.append(int(ups > downs))
    later = data.draw(st.integers(0, 20))
    found = next((at for at in range(later + 1, 60) if levels[at] != levels[later]), None)
    if found is not None:
        assert edges.next_change(origin + later) == origin + found


def test_both_edges_of_100_mhz_are_in_one_tick() -> None:
    edges = ClockEdges(7, 1)
    assert [(edges.rising(k), edges.falling(k)) for k in (1, 2, 3)] == [(8, 8), (9, 9), (10, 10)]
    assert edges.next_change(7) is None
