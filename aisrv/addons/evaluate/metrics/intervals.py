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
DRAWN_SINGLY: Final = 10_000
"""Examples that bootstraps draw one by one; more are drawn in GROUPS, into which they come at random."""
GROUPS: Final = 2_000
"""By as many the width of an interval is known to 1.6 %; by 1,000 bootstraps it is known to 2.2 %."""

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


def bootstrap_counts(counts: npt.NDArray[np.int64], *figures: Callable[[Floats], Floats]) -> list[Metric]:
    """Return figures of counts of any shape, with intervals by counts drawn anew from a multinomial.

    Each of the `figures` takes several tables of counts, [tables, ...] as float64, and returns one number for
    each of them; NaN is what is not defined.
    """
    values = [float(figure(counts[None].astype(np.float64))[0]) for figure in figures]
    total = int(counts.sum())
    if not total:
        return [Metric(None) for _ in figures]
    drawn = generator().multinomial(total, counts.ravel() / total, BOOTSTRAPS)
    tables = drawn.reshape(BOOTSTRAPS, *counts.shape).astype(np.float64)
    return [_with_interval(value, figure(tables)) for value, figure in zip(values, figures, strict=True)]


def bootstrap_sums(columns: npt.NDArray[Any], *figures: Callable[[Floats], float]) -> list[Metric]:
    """Return figures of sums over examples, with intervals by examples drawn anew.

    `columns` are [examples, sums]; each of the `figures` takes their totals, and NaN is what is not defined.
    """
    values = [figure(columns.sum(axis=0, dtype=np.float64)) for figure in figures]
    if not len(columns):
        return [Metric(None) for _ in figures]
    groups = _grouped(np.asarray(columns, np.float64))
    source, size = generator(), len(groups)
    found: list[list[float]] = [[] for _ in figures]
    for _ in range(BOOTSTRAPS // _TOGETHER):
        drawn = source.integers(0, size, (_TOGETHER, size))
        weights = np.stack([np.bincount(each, minlength=size) for each in drawn])
        totals = weights.astype(np.float64) @ groups
        for numbers, figure in zip(found, figures, strict=True):
            numbers += map(figure, totals)
    return [_with_interval(value, np.array(each)) for value, each in zip(values, found, strict=True)]


def _with_interval(value: float, drawn: Floats) -> Metric:
    return Metric(None) if math.isnan(value) else Metric(value, *percentiles(drawn))


def group_numbers(count: int) -> npt.NDArray[np.intp]:
    """Return the group of each of `count` examples: one of GROUPS by seed 0, or of few examples its own."""
    return np.arange(count) if count <= DRAWN_SINGLY else generator().integers(0, GROUPS, count)


def _grouped(columns: Floats) -> Floats:
    if len(columns) <= DRAWN_SINGLY:
        return columns
    groups = group_numbers(len(columns))
    return np.stack([np.bincount(groups, each, GROUPS) for each in columns.T], axis=1)
