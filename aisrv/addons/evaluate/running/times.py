"""How long runs take on this machine, as counts by time: they add up over batches, parts and machines."""

from collections.abc import Mapping, Sequence
from typing import Final, Self

import numpy as np

STEPS: Final = 16
"""Steps of the counts to each doubling of the time."""
_BINS: Final = 64 * STEPS


class TimeCounts:
    """How many runs took how long, in nanoseconds, in steps of 4 %."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        """Start with `counts` by the number of the step, as `values` gives them."""
        self._counts = np.zeros(_BINS, np.int64)
        for step, count in (counts or {}).items():
            self._counts[int(step)] += count

    def add(self, times: Sequence[int], runs: int) -> None:
        """Count a batch of as many runs; each of its times, in nanoseconds, is of an equal share of them."""
        if not times:
            return
        steps = (STEPS * np.log2(np.maximum(times, 1))).astype(np.intp)
        each, more = divmod(runs, len(times))
        weights = np.full(len(times), each)
        weights[:more] += 1
        np.add.at(self._counts, steps, weights)

    def __iadd__(self, other: Self) -> Self:
        self._counts += other._counts
        return self

    def values(self) -> dict[str, int]:
        """Return the counts by the number of the step, without zeros."""
        return {str(step): int(self._counts[step]) for step in np.flatnonzero(self._counts)}

    def percentile_ms(self, percent: float) -> float | None:
        """Return the milliseconds that `percent` of the runs take at most; None without runs."""
        total = self._counts.cumsum()
        if not total[-1]:
            return None
        step = int(np.searchsorted(total, percent / 100 * total[-1]))
        return float(2 ** ((step + 0.5) / STEPS) / 1e6)
