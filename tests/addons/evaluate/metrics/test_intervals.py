"""Intervals: against published figures, how often they hold, and that they are the same each time."""

import math

import numpy as np
import pytest

from aisrv.addons.evaluate.metrics.curves import ScoreCounts
from aisrv.addons.evaluate.metrics.intervals import (
    DRAWN_SINGLY,
    Metric,
    bootstrap_counts,
    bootstrap_sums,
    proportion,
    wilson,
)


def test_wilson_solves_its_own_equation() -> None:
    # The ends are those p for which |right/n - p| is z standard deviations of p (Wilson 1927).
    for right, count in ((394, 397), (0, 5), (5, 5), (1, 1), (50, 100)):
        for end in wilson(right, count):
            if 0 < end < 1:
                deviation = math.sqrt(end * (1 - end) / count)
                assert abs(abs(right / count - end) / deviation - 1.959963984540054) < 1e-6
    assert [round(100 * each, 1) for each in wilson(394, 397)] == [97.8, 99.7]


def test_wilson_holds_as_often_as_it_does() -> None:
    # The exact share of all outcomes, weighed by the binomial distribution.
    share, count = 0.99, 397
    logs = [
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(count + 1)
    ]
    weights = [
        math.exp(log + k * math.log(share) + (count - k) * math.log(1 - share)) for k, log in enumerate(logs)
    ]
    holds = sum(
        weight for k, weight in enumerate(weights) if wilson(k, count)[0] <= share <= wilson(k, count)[1]
    )
    assert round(holds, 3) == 0.933


def test_nothing_has_no_proportion() -> None:
    assert proportion(0, 0) == Metric(None)


def test_bootstraps_are_the_same_each_time_and_about_the_normal_width() -> None:
    values = np.random.default_rng(1).normal(5, 2, 400)
    columns = np.stack((values, np.ones(400)), axis=1)

    def mean(sums: np.ndarray) -> float:  # type: ignore[type-arg]
        return float(sums[0] / sums[1])

    (first, other), (again,) = bootstrap_sums(columns, mean, lambda _: 3.0), bootstrap_sums(columns, mean)
    assert other == Metric(3.0, 3.0, 3.0)
    assert first == again
    assert first.low is not None
    assert first.high is not None
    assert abs((first.high - first.low) / (2 * 1.96 * values.std() / 20) - 1) < 0.1


def test_many_examples_are_drawn_in_groups_with_the_same_width() -> None:
    count = 3 * DRAWN_SINGLY
    values = np.random.default_rng(1).normal(5, 2, count)
    (found,) = bootstrap_sums(
        np.stack((values, np.ones(count)), axis=1), lambda sums: float(sums[0] / sums[1])
    )
    assert found.value == pytest.approx(values.mean())
    assert found.low is not None
    assert found.high is not None
    assert abs((found.high - found.low) / (2 * 1.96 * values.std() / math.sqrt(count)) - 1) < 0.1


def test_a_figure_that_is_not_defined_has_no_value() -> None:
    assert bootstrap_counts(np.array([0, 0]), lambda _: np.array([math.nan])) == [Metric(None)]
    found = bootstrap_counts(np.array([1, 1]), lambda tables: np.full(len(tables), math.nan))
    assert found == [Metric(None)]


def test_areas_of_many_scores_are_exact_with_an_interval_of_groups() -> None:
    random = np.random.default_rng(3)
    positive = random.random(20_000) < 0.5
    counts = ScoreCounts.of(positive, random.normal(0, 1, 20_000) + positive)
    assert len(counts.counts) == 20_000
    found = counts.auc()
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert abs(found.value - 0.7602) < 0.01  # of two normal distributions one deviation apart
