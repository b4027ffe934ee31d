"""Curves over thresholds of a score: ROC, the area below it, part of that area, the best F1.

All of it is computed from counts by score: of scores of 8 bits there are 2 x 256, whatever the number of
examples, and what is computed is exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.metrics.intervals import Floats, Metric, bootstrap_counts

LARGEST_SCORES: Final = 4096
"""Different scores that intervals are computed from; more are put together in as many groups for them."""
PARTIAL_RATE: Final = 0.1
"""False positive rate up to which the partial area counts, as in MLPerf Tiny and DCASE."""
CURVE_POINTS: Final = 200
"""Points of a curve that is drawn; longer ones are thinned."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A ROC curve: false and true positive rates, from 0 to 1."""

    fpr: Floats
    tpr: Floats


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """How many positive and negative examples have each score, from the lowest to the highest."""

    counts: npt.NDArray[np.int64]
    """[scores, 2]: negative, positive."""

    @classmethod
    def of(cls, positive: npt.NDArray[np.bool_], scores: npt.NDArray[Any]) -> Self:
        """Count examples, of which `positive` says what they are, by their scores."""
        _, places = np.unique(scores, return_inverse=True)
        kinds = 2 * places.ravel() + positive
        size = int(places.max(initial=-1)) + 1
        return cls(np.bincount(kinds, minlength=2 * size).reshape(size, 2))

    def grouped(self) -> Self:
        """Return counts of LARGEST_SCORES scores at most, neighbors of about equal counts put together."""
        if len(self.counts) <= LARGEST_SCORES:
            return self
        total = np.cumsum(self.counts.sum(axis=1))
        places = ((total - 1) * LARGEST_SCORES // total[-1]).astype(np.intp)
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        return type(self)(np.add.reduceat(self.counts, starts, axis=0))

    def curve(self) -> Curve | None:
        """Return the curve; None where one kind has no example."""
        return _curve(self.counts.astype(np.float64))

    def auc(self) -> Metric:
        """Return the area under the curve."""
        return self._metric(area)

    def partial_auc(self) -> Metric:
        """Return the area up to PARTIAL_RATE, scaled so that chance has 0.5 and the best 1.

        McClish, Analyzing a portion of the ROC curve, 1989; so does scikit-learn with `max_fpr`.
        """
        return self._metric(partial_area)

    def best_f1(self) -> Metric:
        """Return the largest F1 that a threshold has."""
        return self._metric(largest_f1)

    def best_mean_of_precision_and_recall(self) -> Metric:
        """Return the largest mean of precision and recall that a threshold has."""
        return self._metric(largest_mean)

    def _metric(self, figure: Callable[[Floats], float]) -> Metric:
        exact = figure(self.counts.astype(np.float64))
        if math.isnan(exact):
            return Metric(None)
        (found,) = bootstrap_counts(
            self.grouped().counts, lambda tables: np.array([figure(each) for each in tables])
        )
        return Metric(exact, found.low, found.high)


def area(counts: Floats) -> float:
    """Return the area under the curve of `counts` by score, ties by half; NaN where a kind has none."""
    negative, positive = counts[:, 0], counts[:, 1]
    below = np.cumsum(negative) - negative
    pairs = negative.sum() * positive.sum()
    return float((positive * (below + negative / 2)).sum() / pairs) if pairs else math.nan


def partial_area(counts: Floats) -> float:
    """Return the scaled area up to PARTIAL_RATE of `counts` by score; NaN where a kind has none."""
    curve = _curve(counts)
    if curve is None:
        return math.nan
    stop = int(np.searchsorted(curve.fpr, PARTIAL_RATE, "right"))
    last = np.interp(PARTIAL_RATE, curve.fpr[stop - 1 : stop + 1], curve.tpr[stop - 1 : stop + 1])
    fpr, tpr = np.append(curve.fpr[:stop], PARTIAL_RATE), np.append(curve.tpr[:stop], last)
    found = float(((fpr[1:] - fpr[:-1]) * (tpr[1:] + tpr[:-1])).sum() / 2)
    least, most = PARTIAL_RATE**2 / 2, PARTIAL_RATE
    return 0.5 * (1 + (found - least) / (most - least))


def largest_f1(counts: Floats) -> float:
    """Return the best F1 over thresholds of `counts` by score; NaN without positive examples."""
    right, chosen, positives = _thresholds(counts)
    return float((2 * right / (chosen + positives)).max()) if positives else math.nan


def largest_mean(counts: Floats) -> float:
    """Return the best mean of precision and recall over thresholds of `counts`; NaN without positives."""
    right, chosen, positives = _thresholds(counts)
    if not positives:
        return math.nan
    return float(((right / np.maximum(chosen, 1) + right / positives) / 2).max())


def _thresholds(counts: Floats) -> tuple[Floats, Floats, float]:
    """Positive examples, and all, at or above each score, from the highest; and all positive ones."""
    falling = counts[::-1].cumsum(axis=0)
    return falling[:, 1], falling.sum(axis=1), float(counts[:, 1].sum())


def _curve(counts: Floats) -> Curve | None:
    negatives, positives = counts.sum(axis=0)
    if not negatives or not positives:
        return None
    falling = np.concatenate((np.zeros((1, 2)), counts[counts.any(axis=1)][::-1].cumsum(axis=0)))
    return Curve(falling[:, 0] / negatives, falling[:, 1] / positives)


def thinned(curve: Curve) -> Curve:
    """Return a curve of CURVE_POINTS points at most: those that change its shape, evenly thinned."""
    steps = np.diff(np.stack((curve.fpr, curve.tpr), axis=1), axis=0)
    bends = steps[:-1, 0] * steps[1:, 1] != steps[:-1, 1] * steps[1:, 0]
    kept = np.flatnonzero(np.concatenate(([True], bends, [True])))
    if len(kept) > CURVE_POINTS:
        kept = kept[np.linspace(0, len(kept) - 1, CURVE_POINTS).astype(np.intp)]
    return Curve(curve.fpr[kept], curve.tpr[kept])
