"""The Pareto front: what nothing else beats in latency, memory and accuracy at once.

A point beats another if it is as good in all three and better in one. It does so surely if the bands of what
it is better in lie apart: what another beats, but none surely, is perhaps on the front.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_Bools = npt.NDArray[np.bool_]


class Place(enum.Enum):
    """Where a point lies."""

    FRONT = "front"
    PERHAPS = "perhaps"
    BEHIND = "behind"


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its band in each direction; equal ones are one point."""

    ms: float
    ms_low: float
    ms_high: float
    bytes: int
    accuracy: float = 0.0
    accuracy_low: float = 0.0
    accuracy_high: float = 0.0
    model: int = 0
    """Number of the model: what is of one model is as accurate, whatever the interval."""


def places(points: Sequence[Point]) -> list[Place]:
    """Return where each point lies. The points are different from each other."""
    columns = _Columns(points)
    found = []
    for number in range(len(points)):
        beaten = columns.beat(number)
        if not beaten.any():
            found.append(Place.FRONT)
        else:
            surely = bool((beaten & columns.beat_surely(number)).any())
            found.append(Place.BEHIND if surely else Place.PERHAPS)
    return found


class _Columns:
    """The points as columns, each compared with one point at once."""

    def __init__(self, points: Sequence[Point]) -> None:
        def column(name: str) -> npt.NDArray[Any]:
            return np.array([getattr(each, name) for each in points])

        self._ms, self._low, self._high = map(column, ("ms", "ms_low", "ms_high"))
        self._bytes, self._model = map(column, ("bytes", "model"))
        self._right, self._least, self._most = map(column, ("accuracy", "accuracy_low", "accuracy_high"))

    def beat(self, number: int) -> _Bools:
        """Return which points beat one by their values."""
        ms, size, right = self._ms[number], self._bytes[number], self._right[number]
        as_good = (self._ms <= ms) & (self._bytes <= size) & (self._right >= right)
        better = (self._ms < ms) | (self._bytes < size) | (self._right > right)
        found: _Bools = as_good & better
        return found

    def beat_surely(self, number: int) -> _Bools:
        """Return which of those that beat one do so beyond the bands: equal, or apart."""
        same_time = (
            (self._ms == self._ms[number])
            & (self._low == self._low[number])
            & (self._high == self._high[number])
        )
        same_model = self._model == self._model[number]
        faster = self._high <= self._low[number]
        as_right = same_model | (self._least >= self._most[number])
        found: _Bools = (same_time | faster) & as_right
        return found
