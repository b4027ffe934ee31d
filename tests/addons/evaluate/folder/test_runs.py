"""Comparisons of runs."""

from math import comb

import pytest

from aisrv.addons.evaluate.folder.runs import mcnemar


@pytest.mark.parametrize(("one", "other"), [(0, 0), (0, 1), (5, 5), (0, 6), (2, 12), (12, 2), (40, 60)])
def test_the_exact_test_is_the_sum_over_splits_no_more_likely(one: int, other: int) -> None:
    count = one + other
    weights = [comb(count, k) / 2**count for k in range(count + 1)]
    expected = sum(weight for weight in weights if weight <= weights[one] * (1 + 1e-12))
    assert mcnemar(one, other) == pytest.approx(expected, rel=1e-12)
