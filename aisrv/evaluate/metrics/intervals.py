"""Intervals of 95 %: Wilson's for proportions, percentiles of 1,000 bootstraps for all else.

A percentile bootstrap of a proportion ends at 100 % where nothing is wrong; Wilson's interval does not
(E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927). Bootstraps draw
from PCG64 with seed 0: the same figures have the same intervals on every machine.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Z95: Final = 1.959963984540054
"""Standard deviations on each side of the mean that hold 95 % of a normal distribution."""
BOOTSTRAPS: Final = 1000
LARGEST_GROUPS: Final = 10_000
"""Examples that bootstraps draw one by one; more are drawn in as many groups, by a fixed shuffle."""

_TOGETHER: Final = 50
"""Bootstraps that are summed up in one product: each product may wait for threads of the BLAS library."""
_LOW: Final = 0.025
_HIGH: Final = 0.975


class Metric(NamedTuple):
    """A figure and its interval of 95 %; without one both ends are None."""

    value: float | None
    """None where it is not defined, as the recall of a class without examples."""
    low: float | None = None
    high: float | None = None


def wilson(right: int, count: int, z: float = Z95) -> tuple[float, float]:
    """Return the interval of a proportion: `right` of `count`, `z` standard deviations wide on each side."""
    if not count:
        return 0.0, 1.0
    share, square = right / count, z * z / count
    center = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(center - half, 0.0), min(center + half, 1.0)


def proportion(right: int, count: int) -> Metric:
    """Return a proportion with Wilson's interval; `right` of `count`, no value for none."""
    return Metric(right / count, *wilson(right, count)) if count else Metric(None)


def generator() -> np.random.Generator:
    """Return the source of the bootstraps' random numbers, from its start."""
    return np.random.Generator(np.random.PCG64(0))


def percentiles(values: Floats) -> tuple[float | None, float | None]:
    """Return the ends of an interval by the values of bootstraps; None where most are not defined."""
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values):
        return None, None
    low, high = np.quantile(defined, (_LOW, _HIGH))
    return float(low), float(high)


def bootstrap_counts(counts: npt.NDArray[np.int64], figure: Callable[[Floats], float]) -> Metric:
    """Return a figure of counts of any shape, with the interval by counts drawn anew from a multinomial.

    `figure` takes the counts as float64; NaN is what is not defined.
    """
    value = figure(counts.astype(np.float64))
    total = int(counts.sum())
    if math.isnan(value) or not total:
        return Metric(None)
    shares = counts.ravel() / total
    drawn = generator().multinomial(total, shares, BOOTSTRAPS)
    found = np.array([figure(each.reshape(counts.shape).astype(np.float64)) for each in drawn])
    return Metric(value, *percentiles(found))


def bootstrap_sums(columns: npt.NDArray[Any], figure: Callable[[Floats], float]) -> Metric:
    """Return a figure of sums over examples, with the interval by examples drawn anew.

    `columns` are [examples, sums]; `figure` takes their totals, and NaN is what is not defined.
    """
    value = figure(columns.sum(axis=0, dtype=np.float64))
    if math.isnan(value) or not len(columns):
        return Metric(None)
    groups = _grouped(np.asarray(columns, np.float64))
    source, size = generator(), len(groups)
    found: list[float] = []
    for _ in range(BOOTSTRAPS // _TOGETHER):
        drawn = source.integers(0, size, (_TOGETHER, size))
        weights = np.stack([np.bincount(each, minlength=size) for each in drawn])
        found += map(figure, weights.astype(np.float64) @ groups)
    return Metric(value, *percentiles(np.array(found)))


def group_numbers(count: int) -> npt.NDArray[np.intp]:
    """Return the group of each of `count` examples: LARGEST_GROUPS at most, which a fixed shuffle makes."""
    if count <= LARGEST_GROUPS:
        return np.arange(count)
    return generator().permutation(count) % LARGEST_GROUPS


def _grouped(columns: Floats) -> Floats:
    if len(columns) <= LARGEST_GROUPS:
        return columns
    groups = group_numbers(len(columns))
    return np.stack([np.bincount(groups, each, LARGEST_GROUPS) for each in columns.T], axis=1)
