"""Figures of a classifier: accuracy, confusion, recall and precision, ROC, calibration."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.evaluate.metrics.curves import Curve, ScoreCounts, thinned
from aisrv.evaluate.metrics.intervals import (
    Floats,
    Metric,
    bootstrap_counts,
    bootstrap_sums,
    group_numbers,
    proportion,
)

BINS: Final = 15
"""Bins of equal width of the expected calibration error (Guo et al., On calibration, 2017)."""

Labels = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]
"""[examples, classes], as real numbers."""


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Examples whose confidence lies in a bin, with its lower end left out."""

    low: float
    high: float
    count: int
    confidence: float | None
    """The mean; None without examples."""
    right: float | None
    """Share of those that are right."""


@dataclass(frozen=True, slots=True)
class ClassCurve:
    """The ROC curve of one class against the rest."""

    number: int
    curve: Curve
    auc: Metric


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """All figures of a classifier."""

    metrics: dict[str, Metric]
    confusion: npt.NDArray[np.int64]
    """[label, predicted]; examples that failed are in no column."""
    calibration: tuple[CalibrationBin, ...]
    """Empty where outputs are no probabilities."""
    curves: tuple[ClassCurve, ...]
    ties: int
    """Examples in which several classes have the largest score."""


def class_scores(outputs: npt.NDArray[Any], zero: float = 0.0, one: float = 1.0) -> Scores:
    """Return scores by class: one output is that of class 1, and class 0 has what is left to 1.

    `outputs` are [examples, outputs]; `zero` and `one` are the elements that stand for these numbers.
    """
    real = (np.asarray(outputs, np.float64) - zero) / (one - zero)
    return np.concatenate((1 - real, real), axis=1) if real.shape[1] == 1 else real


def predicted_classes(scores: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the class with the largest of the scores, [examples, classes]; of several the lowest."""
    return np.asarray(scores.argmax(axis=1), np.int32)


def top_right(scores: Scores, labels: Labels, k: int) -> npt.NDArray[np.bool_]:
    """Return whether the label is among the first `k` by scores; of equal ones lower classes come first."""
    own = scores[np.arange(len(labels)), labels][:, None]
    before = (scores > own) | ((scores == own) & (np.arange(scores.shape[1]) < labels[:, None]))
    found: npt.NDArray[np.bool_] = before.sum(axis=1) < k
    return found


def confusion_of(labels: Labels, predicted: Labels, classes: int) -> npt.NDArray[np.int64]:
    """Count examples by label and predicted class, of as many classes."""
    places = labels.astype(np.int64) * classes + predicted
    return np.asarray(np.bincount(places, minlength=classes * classes).reshape(classes, classes), np.int64)


def recall(confusion: Floats) -> Floats:
    """Return the share of each class that is found; NaN for one without examples.

    `confusion` is [label, predicted], as of the functions below.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(confusion.diagonal() / confusion.sum(axis=1))


def precision(confusion: Floats) -> Floats:
    """Return the share of what is taken for each class that is; NaN for one that nothing is taken for."""
    with np.errstate(invalid="ignore"):
        return np.asarray(confusion.diagonal() / confusion.sum(axis=0))


def f1(confusion: Floats) -> Floats:
    """Return the harmonic mean of precision and recall of each class; NaN for one that never occurs."""
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * confusion.diagonal() / (confusion.sum(axis=0) + confusion.sum(axis=1)))


def macro(figure: Callable[[Floats], Floats], confusion: Floats) -> float:
    """Return the mean of a figure over the classes that have examples or predictions; 0 where undefined."""
    occurs = (confusion.sum(axis=0) + confusion.sum(axis=1)) > 0
    found = np.nan_to_num(figure(confusion)[occurs])
    return float(found.mean()) if len(found) else math.nan


def are_probabilities(scores: Scores, step: float) -> bool:
    """Whether scores are 0 to 1 and add up to 1, as far as outputs of a `step` can."""
    off = step * scores.shape[1] + 1e-3
    return bool(
        (scores >= -off).all() and (scores <= 1 + off).all() and (abs(scores.sum(axis=1) - 1) <= off).all()
    )


def calibration_bins(confidence: Floats, right: npt.NDArray[np.bool_]) -> tuple[CalibrationBin, ...]:
    """Sort examples into BINS by their confidence, with whether they are right."""
    counts = _bin_sums(confidence, right).reshape(BINS, 3)
    return tuple(
        CalibrationBin(
            number / BINS,
            (number + 1) / BINS,
            int(count),
            float(total / count) if count else None,
            float(hits / count) if count else None,
        )
        for number, (count, total, hits) in enumerate(counts)
    )


def _places(confidence: Floats) -> npt.NDArray[np.intp]:
    return np.asarray(np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1), np.intp)


def _bin_sums(confidence: Floats, right: npt.NDArray[np.bool_]) -> Floats:
    """Sum up count, confidence and right ones by bin, [3 * BINS]."""
    places = _places(confidence)
    sums = [np.bincount(places, weights, BINS) for weights in (None, confidence, right.astype(np.float64))]
    return np.stack(sums, axis=1).ravel().astype(np.float64)


def calibration_error(sums: Floats) -> float:
    """Return the expected calibration error by the sums of `BINS` bins: count, confidence, right."""
    count, confidence, right = sums.reshape(BINS, 3).T
    return float(abs(right - confidence).sum() / count.sum()) if count.sum() else math.nan


def class_figures(
    scores: Scores,
    labels: Labels,
    failed: npt.NDArray[np.bool_],
    *,
    step: float = 0.0,
    top: Sequence[int] = (1,),
    curves: bool = False,
) -> ClassFigures:
    """Return all figures of a classifier.

    `scores` and `labels` are of all examples; those that `failed` count as wrong and have no scores. `step`
    is an output's step in real numbers, `top` the numbers of best classes among which a label may be;
    `curves` asks for those of all classes, which two classes have anyway.
    """
    total, classes = len(labels), scores.shape[1]
    seen = ~failed
    scores, labels = scores[seen], labels[seen]
    predicted = predicted_classes(scores)
    right = predicted == labels
    metrics = {"accuracy": proportion(int(right.sum()), total)}
    for k in top:
        if 1 < k < classes:
            metrics[f"top{k}"] = proportion(int(top_right(scores, labels, k).sum()), total)
    confusion = confusion_of(labels, predicted, classes)
    by_class = {"recall": recall, "precision": precision, "f1": f1}
    for name, figure in by_class.items():
        metrics[f"macro_{name}"] = bootstrap_counts(confusion, partial(macro, figure))
    metrics |= _by_class(confusion)
    found: list[ClassCurve] = []
    if classes == 2 or curves:
        for number in range(classes) if curves else (1,):
            found += _class_curve(number, scores[:, number], labels)
    if classes == 2 and found:
        metrics["auc"] = found[-1].auc
    metrics |= {f"auc.{each.number}": each.auc for each in found if classes > 2}
    bins: tuple[CalibrationBin, ...] = ()
    if len(labels) and are_probabilities(scores, step):
        confidence = scores.max(axis=1)
        bins = calibration_bins(confidence, right)
        metrics |= _probability_metrics(scores, labels, confidence, right, step)
    ties = int(((scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum()) if len(labels) else 0
    return ClassFigures(metrics, confusion, bins, tuple(found), ties)


def _by_class(confusion: npt.NDArray[np.int64]) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    hits, labels, taken = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    for number, (hit, own, chosen) in enumerate(zip(hits, labels, taken, strict=True)):
        found[f"recall.{number}"] = proportion(int(hit), int(own))
        found[f"precision.{number}"] = proportion(int(hit), int(chosen))
    for number, value in enumerate(f1(confusion.astype(np.float64))):
        found[f"f1.{number}"] = Metric(None if math.isnan(value) else float(value))
    return found


def _class_curve(number: int, scores: Floats, labels: Labels) -> list[ClassCurve]:
    counts = ScoreCounts.of(labels == number, scores)
    curve = counts.curve()
    return [] if curve is None else [ClassCurve(number, thinned(curve), counts.auc())]


def _probability_metrics(
    scores: Scores, labels: Labels, confidence: Floats, right: npt.NDArray[np.bool_], step: float
) -> dict[str, Metric]:
    """Return expected calibration error, Brier score, and log loss clipped at half a step."""
    own = scores[np.arange(len(labels)), labels]
    brier = (scores**2).sum(axis=1) - 2 * own + 1
    clip = max(step / 2, float(np.finfo(np.float64).eps))
    losses = -np.log(np.clip(own, clip, 1 - clip))
    groups = group_numbers(len(labels))
    size = int(groups.max()) + 1
    places = groups * BINS + _places(confidence)
    weights = (None, confidence, right.astype(np.float64))
    columns = np.stack([np.bincount(places, each, size * BINS) for each in weights], axis=1)
    ones = np.ones(len(labels))
    return {
        "ece": bootstrap_sums(columns.reshape(size, -1), calibration_error),
        "brier": bootstrap_sums(np.stack((brier, ones), axis=1), mean),
        "log_loss": bootstrap_sums(np.stack((losses, ones), axis=1), mean),
    }


def mean(sums: Floats) -> float:
    """Return the mean by a sum and a count, `sums`; NaN for none."""
    return float(sums[0] / sums[1]) if sums[1] else math.nan
