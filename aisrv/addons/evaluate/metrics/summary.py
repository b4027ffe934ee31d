"""What figures need of each example's scores, computed in pieces that stay in the processor's caches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]
"""[examples, classes], as real numbers."""
Rows = slice | Sequence[int] | npt.NDArray[np.intp] | npt.NDArray[np.bool_]
"""Some of the examples: a slice, indices, or a mask."""

_PIECE: Final = 1 << 15
"""Scores that are computed at once: 256 KiB."""


def _as_they_are(elements: npt.NDArray[Any]) -> Scores:
    return np.asarray(elements, np.float64)


@dataclass(frozen=True, slots=True)
class ScoreRows:
    """The scores of examples by class, made of the outputs' elements as they are needed."""

    elements: npt.NDArray[Any]
    """[examples, outputs]."""
    to_scores: Callable[[npt.NDArray[Any]], Scores] = _as_they_are
    """Makes scores, [examples, classes], of the elements of some examples."""

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def classes(self) -> int:
        """How many classes there are scores for."""
        return self.to_scores(self.elements[:0]).shape[1]

    def of(self, rows: Rows) -> Scores:
        """Return the scores of some examples."""
        return self.to_scores(self.elements[rows])

    def some(self, rows: Rows) -> Self:
        """Return some of the examples."""
        return type(self)(self.elements[rows], self.to_scores)

    def pieces(self) -> Iterator[tuple[slice, Scores]]:
        """Yield the scores of all examples, some at a time, with their places."""
        size = max(_PIECE // max(self.elements.shape[1], 1), 1)
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield rows, self.of(rows)

    def column(self, number: int) -> Floats:
        """Return the scores of one class."""
        found = np.empty(len(self))
        for rows, scores in self.pieces():
            found[rows] = scores[:, number]
        return found

    def predicted(self) -> Labels:
        """Return the class with the largest score of each example; of several the lowest."""
        found = np.empty(len(self), np.int32)
        for rows, scores in self.pieces():
            found[rows] = scores.argmax(axis=1)
        return found


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Of each example what most figures need, and of all what tells whether scores are probabilities."""

    predicted: Labels
    """The class with the largest score; of several the lowest."""
    largest: Floats
    own: Floats
    """The score of the label."""
    squares: Floats
    """The sum of the squared scores."""
    ties: int
    """Examples in which several classes have the largest score."""
    low: float
    """The lowest score of all."""
    high: float
    distance: float
    """The largest distance of an example's sum of scores from 1."""

    @classmethod
    def of(cls, rows: ScoreRows, labels: Labels) -> Self:
        """Summarize the scores of examples, of which `labels` are right."""
        count, classes = len(rows), rows.classes
        predicted = np.empty(count, np.int32)
        largest, own, squares = np.empty(count), np.empty(count), np.empty(count)
        ties, low, high, distance = 0, np.inf, -np.inf, 0.0
        ones = np.ones(classes)
        for place, scores in rows.pieces():
            numbers = np.arange(len(scores))
            best = scores.argmax(axis=1)
            top = scores[numbers, best]
            predicted[place], largest[place] = best, top
            own[place] = scores[numbers, labels[place]]
            squares[place] = np.einsum("ij,ij->i", scores, scores)
            holders = np.flatnonzero(scores == top[:, None]) // classes
            ties += len(np.unique(holders[1:][holders[1:] == holders[:-1]]))
            low, high = min(low, float(scores.min())), max(high, float(top.max()))
            distance = max(distance, float(np.abs(scores @ ones - 1).max()))
        return cls(predicted, largest, own, squares, ties, low, high, distance)

    def are_probabilities(self, off: float) -> bool:
        """Return whether scores are 0 to 1 and those of an example add up to 1, no further `off`."""
        return self.low >= -off and self.high <= 1 + off and self.distance <= off
