"""Ranges of sums, and which of them may wrap: both sides of each limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.kernels.arithmetic import Multiplier
from aisrv.addons.kernels.backends.native.rescaling import SumRange, may_wrap, sum_range

HALF, TWICE = Multiplier(1 << 30, 0), Multiplier(1 << 30, 2)
END = 1 << 31


@given(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.lists(st.integers(-255, 255), min_size=1, max_size=3),
    st.integers(-128, 127),
)
def test_ranges_are_reached_and_not_left(bias: int, weights: list[int], zero: int) -> None:
    found = sum_range(np.array([bias]), np.array(weights)[:, None], zero)
    ends = [sum(max(w * (x - zero) for x in (-128, 127)) for w in weights), 0]
    ends[1] = sum(min(w * (x - zero) for x in (-128, 127)) for w in weights)
    assert [*found.most, *found.least] == [bias + each for each in ends]


@pytest.mark.parametrize(
    ("least", "most", "multiplier", "zero", "wraps"),
    [
        (0, END - 1, HALF, 127, False),
        (0, END, HALF, 127, True),
        (-END, 0, HALF, -128, False),
        (-END - 1, 0, HALF, -128, True),
        # Shifted left by 2 bits, which leaves half of that.
        (0, (END >> 2) - 1, TWICE, 0, False),
        (0, END >> 2, TWICE, 0, True),
        (-END >> 2, 0, TWICE, 0, False),
        # Near the end, the zero point is what leaves it: the largest mantissa keeps nearly all.
        (0, END - 200, Multiplier((1 << 31) - 1, 0), 127, False),
        (0, END - 100, Multiplier((1 << 31) - 1, 0), 127, True),
        (200 - END, 0, Multiplier((1 << 31) - 1, 0), -128, False),
        (100 - END, 0, Multiplier((1 << 31) - 1, 0), -128, True),
        # One sum, one output.
        (END, END, HALF, 0, False),
    ],
)
def test_what_may_wrap(least: int, most: int, multiplier: Multiplier, zero: int, wraps: bool) -> None:
    found = may_wrap(SumRange(np.array([least]), np.array([most])), (multiplier,), zero)
    assert found.tolist() == [wraps]


def test_each_channel_has_a_range_and_a_multiplier() -> None:
    sums = SumRange(np.array([-5, -END, 0]), np.array([5, END, END >> 1]))
    assert may_wrap(sums, (HALF, HALF, TWICE), 0).tolist() == [False, True, True]
