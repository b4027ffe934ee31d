"""Figures of a classifier: accuracy, confusion, recall and precision, ROC, calibration."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.metrics.curves import Curve, ScoreCounts, thinned
from aisrv.addons.evaluate.metrics.intervals import (
    DRAWN_SINGLY,
    GROUPS,
    Floats,
    Metric,
    bootstrap_counts,
    bootstrap_sums,
    group_numbers,
    proportion,
)
from aisrv.addons.evaluate.metrics.summary import Labels, ScoreRows, Scores, ScoreSummary

BINS: Final = 15
"""Bins of equal width of the expected calibration error (Guo et al., On calibration, 2017)."""

_TOGETHER: Final = 1 << 16
"""Examples that are sorted into bins at once."""


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
    predicted: Labels
    """Of the examples that did not fail."""
    confusion: npt.NDArray[np.int64]
    """[label, predicted]; examples that failed are in no column."""
    calibration: tuple[CalibrationBin, ...]
    """Empty where outputs are no probabilities."""
    curves: tuple[ClassCurve, ...]
    ties: int
    """Examples in which several classes have the largest score."""


def class_scores(real: Floats) -> Scores:
    """Return scores by class of outputs, [examples, outputs]: a single output is that of class 1.

    Class 0 has what is left to 1.
    """
    return np.concatenate((1 - real, real), axis=1) if real.shape[1] == 1 else real


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

    `confusion` is [label, predicted], or [..., label, predicted] of several, as of the functions below.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(_hits(confusion) / confusion.sum(axis=-1))


def precision(confusion: Floats) -> Floats:
    """Return the share of what is taken for each class that is; NaN for one that nothing is taken for."""
    with np.errstate(invalid="ignore"):
        return np.asarray(_hits(confusion) / confusion.sum(axis=-2))


def f1(confusion: Floats) -> Floats:
    """Return the harmonic mean of precision and recall of each class; NaN for one that never occurs."""
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * _hits(confusion) / (confusion.sum(axis=-2) + confusion.sum(axis=-1)))


def _hits(confusion: Floats) -> Floats:
    return confusion.diagonal(axis1=-2, axis2=-1)


def macro(figure: Callable[[Floats], Floats], confusion: Floats) -> Floats:
    """Return the mean of a figure over the classes that have examples or predictions, of each confusion.

    A class of which the figure is undefined counts as 0; without any class the mean is NaN.
    """
    occurs = (confusion.sum(axis=-2) + confusion.sum(axis=-1)) > 0
    found = np.where(occurs, np.nan_to_num(figure(confusion)), 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(found.sum(axis=-1) / occurs.sum(axis=-1))


def calibration_bins(sums: Floats) -> tuple[CalibrationBin, ...]:
    """Return the bins by their sums, [BINS, 3]: count, confidence, right."""
    return tuple(
        CalibrationBin(
            number / BINS,
            (number + 1) / BINS,
            int(count),
            float(total / count) if count else None,
            float(hits / count) if count else None,
        )
        for number, (count, total, hits) in enumerate(sums)
    )


def bin_sums(
    confidence: Floats, right: npt.NDArray[np.bool_], groups: npt.NDArray[np.intp], size: int
) -> Floats:
    """Sort examples into BINS by their confidence; sum up count, confidence and right ones.

    The sums are [groups, BINS, 3] of `size` groups, of which `groups` says that of each example.
    """
    places = groups * BINS + np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1).astype(np.intp)
    weights = (None, confidence, right)
    sums = [np.bincount(places, each, size * BINS) for each in weights]
    return np.stack(sums, axis=1).reshape(size, BINS, 3).astype(np.float64)


def calibration_error(sums: Floats) -> float:
    """Return the expected calibration error by the sums of `BINS` bins: count, confidence, right."""
    count, confidence, right = sums.reshape(BINS, 3).T
    return float(abs(right - confidence).sum() / count.sum()) if count.sum() else math.nan


def class_figures(
    scores: ScoreRows,
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
    total, classes = len(labels), scores.classes
    if failed.any():
        scores, labels = scores.some(~failed), labels[~failed]
    summary = ScoreSummary.of(scores, labels)
    right = summary.predicted == labels
    metrics = {"accuracy": proportion(int(right.sum()), total)}
    for k in top:
        if 1 < k < classes:
            hits = sum(int(top_right(each, labels[rows], k).sum()) for rows, each in scores.pieces())
            metrics[f"top{k}"] = proportion(hits, total)
    confusion = confusion_of(labels, summary.predicted, classes)
    by_class = {"macro_recall": recall, "macro_precision": precision, "macro_f1": f1}
    means = bootstrap_counts(confusion, *(partial(macro, figure) for figure in by_class.values()))
    metrics |= dict(zip(by_class, means, strict=True))
    metrics |= _by_class(confusion)
    found: list[ClassCurve] = []
    if classes == 2 or curves:
        for number in range(classes) if curves else (1,):
            found += _class_curve(number, scores.column(number), labels)
    if classes == 2 and found:
        metrics["auc"] = found[-1].auc
    metrics |= {f"auc.{each.number}": each.auc for each in found if classes > 2}
    bins: tuple[CalibrationBin, ...] = ()
    if len(labels) and summary.are_probabilities(step * classes + 1e-3):
        found_bins, probability_metrics = _probability_figures(summary, right, step)
        bins = calibration_bins(found_bins)
        metrics |= probability_metrics
    return ClassFigures(metrics, summary.predicted, confusion, bins, tuple(found), summary.ties)


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


def _probability_figures(
    summary: ScoreSummary, right: npt.NDArray[np.bool_], step: float
) -> tuple[Floats, dict[str, Metric]]:
    """Return the sums of bins, and expected calibration error, Brier score and log loss.

    The log loss is clipped at half a `step`.
    """
    count = len(right)
    groups = group_numbers(count)
    size = GROUPS if count > DRAWN_SINGLY else count
    clip = max(step / 2, float(np.finfo(np.float64).eps))
    bins, sums = np.zeros((size, BINS, 3)), np.zeros((size, 3))
    for start in range(0, count, _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        own = summary.own[rows]
        bins += bin_sums(summary.largest[rows], right[rows], groups[rows], size)
        brier = summary.squares[rows] - 2 * own + 1
        losses = -np.log(np.clip(own, clip, 1 - clip))
        sums += np.stack([np.bincount(groups[rows], each, size) for each in (brier, losses, None)], axis=1)
    columns = np.concatenate((bins.reshape(size, -1), sums), axis=1)
    found = bootstrap_sums(columns, _ece, _brier, _log_loss)
    return bins.sum(axis=0), dict(zip(("ece", "brier", "log_loss"), found, strict=True))


def _ece(sums: Floats) -> float:
    return calibration_error(sums[:-3])


def _brier(sums: Floats) -> float:
    return float(sums[-3] / sums[-1]) if sums[-1] else math.nan


def _log_loss(sums: Floats) -> float:
    return float(sums[-2] / sums[-1]) if sums[-1] else math.nan
