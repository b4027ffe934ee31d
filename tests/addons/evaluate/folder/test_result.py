"""Bounds on results."""

from typing import Any

import pytest

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.folder.result import unmet

RESULT: dict[str, Any] = {
    "metrics": {
        "accuracy": {"value": 0.9, "low": 0.85, "high": 0.94},
        "recall.3": {"value": 0.5, "low": 0.4, "high": 0.6},
        "auc": {"value": None, "low": None, "high": None},
    },
    "latency": {"device": {"ms": 3.0}, "host_ms": {"p50": 0.1}},
    "against": {"agreement": 0.99, "sqnr_db": None, "outputs": [{"max_steps": 2.0}]},
    "note": "",
}


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("accuracy>=0.9", None),
        ("accuracy.low >= 0.9", "accuracy.low is 0.85, not >= 0.9"),
        ("metrics.accuracy.high<0.95", None),
        ("recall.3>=0.6", "recall.3 is 0.5, not >= 0.6"),
        ("recall.3.high==0.6", None),
        ("auc>0.5", "auc is not defined, not > 0.5"),
        ("latency.device.ms<=2.5", "latency.device.ms is 3, not <= 2.5"),
        ("against.agreement>=0.99", None),
        ("against.sqnr_db>=90", None),
        ("against.outputs.0.max_steps<=1", "against.outputs.0.max_steps is 2, not <= 1"),
    ],
)
def test_bounds(bound: str, words: str | None) -> None:
    assert unmet(RESULT, [bound]) == ([] if words is None else [words])


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("accuracy", "write it as accuracy>=0.9"),
        ("acuracy>=1", "the result has no 'acuracy'; it has accuracy, recall.3, auc, against"),
        ("against.agremeent>=1", "the result has no 'agremeent'; it has agreement, sqnr_db, outputs"),
        ("note>=1", "not a number"),
    ],
)
def test_bounds_that_are_none(bound: str, words: str) -> None:
    with pytest.raises(EvaluateError, match=words):
        unmet(RESULT, [bound])
