"""Summaries of scores: the same in pieces as of all at once."""

import numpy as np
import pytest

from aisrv.addons.evaluate.metrics import summary
from aisrv.addons.evaluate.metrics.summary import ScoreRows, ScoreSummary


@pytest.mark.parametrize("piece", [1, 40, 1 << 16])
def test_pieces_make_the_summary_of_all(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_PIECE", piece)
    random = np.random.default_rng(4)
    elements = random.integers(-3, 4, (101, 5), np.int8)
    labels = random.integers(0, 5, 101, np.int32)
    rows = ScoreRows(elements, lambda each: (each.astype(np.float64) + 3) / 8)
    scores = (elements + 3) / 8
    found = ScoreSummary.of(rows, labels)
    largest = scores.max(axis=1)
    assert found.predicted.tolist() == scores.argmax(axis=1).tolist() == rows.predicted().tolist()
    assert found.largest.tolist() == largest.tolist()
    assert found.own.tolist() == [float(row[label]) for row, label in zip(scores, labels, strict=True)]
    assert found.squares.tolist() == (scores**2).sum(axis=1).tolist()
    assert found.ties == sum(list(row).count(max(row)) > 1 for row in scores.tolist())
    assert (found.low, found.high) == (scores.min(), scores.max())
    assert found.distance == abs(scores.sum(axis=1) - 1).max()
    assert rows.column(3).tolist() == scores[:, 3].tolist()
    assert rows.some(labels == 2).of([0]).tolist() == scores[labels == 2][:1].tolist()
    assert (len(rows), rows.classes) == (101, 5)


def test_probabilities_are_0_to_1_and_add_up_to_1() -> None:
    def said(*scores: float) -> bool:
        return ScoreSummary.of(ScoreRows(np.array([scores])), np.array([0], np.int32)).are_probabilities(0.01)

    assert said(0.3, 0.7)
    assert said(0.305, 0.7)
    assert not said(0.32, 0.7)
    assert not said(-0.1, 1.1)
