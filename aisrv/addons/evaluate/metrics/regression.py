"""Figures of real numbers: MAE, RMSE, R2 and the largest error."""

import math

import numpy as np

from aisrv.addons.evaluate.metrics.intervals import Floats, Metric, bootstrap_sums


def regression_figures(values: Floats, labels: Floats) -> dict[str, Metric]:
    """Return the figures of `values` beside `labels`, one for each example that was run."""
    if not len(labels):
        return {name: Metric(None) for name in ("mae", "rmse", "r2", "largest_error")}
    errors = abs(values - labels)
    # R2 of sums of squares loses digits where labels are far from 0; around their mean it does not.
    centered = labels - labels.mean()
    ones = np.ones(len(labels))
    columns = np.stack((errors, errors**2, centered, centered**2, ones), axis=1)
    mae, rmse, r2 = bootstrap_sums(columns, _mae, _rmse, _r2)
    return {"mae": mae, "rmse": rmse, "r2": r2, "largest_error": Metric(float(errors.max()))}


def _mae(sums: Floats) -> float:
    return float(sums[0] / sums[4])


def _rmse(sums: Floats) -> float:
    return math.sqrt(sums[1] / sums[4])


def _r2(sums: Floats) -> float:
    spread = sums[3] - sums[2] ** 2 / sums[4]
    return float(1 - sums[1] / spread) if spread > 0 else math.nan
