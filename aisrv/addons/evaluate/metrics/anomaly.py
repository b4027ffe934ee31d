"""Figures of a detector of anomalies, whose score is higher the less normal an example is."""

from typing import Any

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.metrics.curves import Curve, ScoreCounts, thinned
from aisrv.addons.evaluate.metrics.intervals import Floats, Metric


def anomaly_figures(
    scores: Floats, anomalous: npt.NDArray[np.bool_], mlperf: bool = False
) -> tuple[dict[str, Metric], Curve | None]:
    """Return the figures and the curve of scores of examples, of which `anomalous` says what they are.

    `mlperf` adds what MLPerf Tiny calls the accuracy of ad01: the best mean of precision and recall.
    """
    counts = ScoreCounts.of(anomalous, scores)
    metrics = {"auc": counts.auc(), "pauc": counts.partial_auc(), "best_f1": counts.best_f1()}
    if mlperf:
        metrics["mlperf_ad_accuracy"] = counts.best_mean_of_precision_and_recall()
    curve = counts.curve()
    return metrics, None if curve is None else thinned(curve)


def reconstruction_scores(inputs: Floats, outputs: Floats) -> Floats:
    """Return the mean squared distance of inputs and outputs, [examples, elements] each."""
    return np.asarray(((inputs - outputs) ** 2).mean(axis=1))


def means(values: npt.NDArray[Any], recordings: npt.NDArray[np.intp]) -> Floats:
    """Return the mean of the values of each recording that occurs, in order of their numbers."""
    counts = np.bincount(recordings)
    sums = np.bincount(recordings, values)
    return np.asarray(sums[counts > 0] / counts[counts > 0])
