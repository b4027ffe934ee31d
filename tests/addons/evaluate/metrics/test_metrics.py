"""Figures beside scikit-learn's, on sets with ties, empty classes and single examples."""

import math
import warnings
from types import ModuleType

import numpy as np
import pytest

from aisrv.addons.evaluate.metrics.anomaly import anomaly_figures, means, reconstruction_scores
from aisrv.addons.evaluate.metrics.classes import (
    CalibrationBin,
    bin_sums,
    calibration_bins,
    calibration_error,
    class_figures,
    class_scores,
    confusion_of,
    f1,
    macro,
    precision,
    recall,
    top_right,
)
from aisrv.addons.evaluate.metrics.curves import CURVE_POINTS, ScoreCounts, area, partial_area, thinned
from aisrv.addons.evaluate.metrics.regression import regression_figures
from aisrv.addons.evaluate.metrics.summary import ScoreRows
from tests.support.amounts import amount, in_ci
from tests.support.programs import need_package

CLOSE = 1e-12


@pytest.fixture(scope="module")
def oracle() -> ModuleType:
    """The metrics of scikit-learn, whose import takes a second."""
    found: ModuleType = need_package("sklearn.metrics", "scikit-learn")
    return found


def random_set(seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Scores in few steps, so that many are equal, and labels of which some may not occur."""
    random = np.random.default_rng(seed)
    classes, count = int(random.integers(2, 8)), int(random.choice([1, 2, 5, 40, 300]))
    scores = random.integers(0, int(random.integers(2, 40)), (count, classes)) + 1.0
    return scores / scores.sum(axis=1, keepdims=True), random.integers(0, classes, count).astype(np.int32)


@pytest.mark.in_full
def test_classes_as_scikit_learn_has_them(oracle: ModuleType) -> None:
    for each in range(amount(500, every_day=in_ci(40, every_day=10))):
        scores, labels = random_set(each)
        classes = scores.shape[1]
        everyone = np.arange(classes)
        predicted = ScoreRows(scores).predicted()
        confusion = confusion_of(labels, predicted, classes)
        assert np.array_equal(confusion, oracle.confusion_matrix(labels, predicted, labels=everyone))
        values = confusion.astype(float)
        found = oracle.precision_recall_fscore_support(
            labels, predicted, labels=everyone, zero_division=np.nan
        )
        for ours, theirs in zip((precision, recall, f1), found, strict=False):
            assert np.allclose(ours(values), theirs, rtol=0, atol=CLOSE, equal_nan=True)
            occurs = np.union1d(labels, predicted)
            name = {precision: 0, recall: 1, f1: 2}[ours]
            macros = oracle.precision_recall_fscore_support(
                labels, predicted, labels=occurs, average="macro", zero_division=0
            )
            assert abs(macro(ours, values) - macros[name]) < CLOSE
            assert np.allclose(ours(np.stack((values, values.T)))[0], ours(values), equal_nan=True)
        for number in everyone:
            counts = ScoreCounts.of(labels == number, scores[:, number])
            if len(set(labels == number)) < 2:
                assert counts.curve() is None
                assert math.isnan(area(counts.counts.astype(float)))
                continue
            theirs = oracle.roc_auc_score(labels == number, scores[:, number])
            assert abs(area(counts.counts.astype(float)) - theirs) < CLOSE
            part = oracle.roc_auc_score(labels == number, scores[:, number], max_fpr=0.1)
            assert abs(partial_area(counts.counts.astype(float)) - part) < CLOSE
            curve = counts.curve()
            assert curve is not None
            fpr, tpr, _ = oracle.roc_curve(labels == number, scores[:, number], drop_intermediate=False)
            assert np.allclose(curve.fpr, fpr, atol=CLOSE)
            assert np.allclose(curve.tpr, tpr, atol=CLOSE)


@pytest.mark.parametrize("seed", range(in_ci(12, every_day=5)))
def test_all_figures_of_a_set(seed: int, oracle: ModuleType) -> None:
    scores, labels = random_set(1000 + seed)
    figures = class_figures(ScoreRows(scores), labels, np.zeros(len(labels), bool), top=(1, 2), curves=True)
    metrics = figures.metrics
    everyone = np.arange(scores.shape[1])
    assert metrics["accuracy"].value == oracle.accuracy_score(labels, ScoreRows(scores).predicted())
    brier, loss = metrics["brier"].value, metrics["log_loss"].value
    assert brier is not None
    assert loss is not None
    hot = np.eye(len(everyone))[labels]
    assert abs(brier - ((scores - hot) ** 2).sum(axis=1).mean()) < CLOSE
    assert abs(loss - oracle.log_loss(labels, scores, labels=everyone)) < CLOSE
    for name, each in metrics.items():
        assert (each.low is None) == (each.high is None), name
        if each.value is not None and each.low is not None and each.high is not None:
            assert each.low <= each.high
    assert sum(each.count for each in figures.calibration) == len(labels)


def test_top_k_without_ties_is_scikit_learns(oracle: ModuleType) -> None:
    random = np.random.default_rng(2)
    scores, labels = random.permutation(4000).reshape(400, 10) / 4000, random.integers(0, 10, 400, np.int32)
    for k in (1, 2, 5):
        theirs = oracle.top_k_accuracy_score(labels, scores, k=k)
        assert abs(top_right(scores, labels, k).mean() - theirs) < CLOSE


def test_of_equal_scores_the_lower_class_comes_first() -> None:
    scores = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.4, 0.4]])
    labels = np.array([0, 1, 2])
    assert ScoreRows(scores).predicted().tolist() == [0, 0, 1]
    assert top_right(scores, labels, 1).tolist() == [True, False, False]
    assert top_right(scores, labels, 2).tolist() == [True, True, True]
    assert class_figures(ScoreRows(scores), labels.astype(np.int32), np.zeros(3, bool)).ties == 3


def test_what_failed_is_wrong_and_in_no_other_figure() -> None:
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.0, 0.0], [1.0, 0.0]])
    labels = np.array([0, 1, 1, 1], np.int32)
    figures = class_figures(ScoreRows(scores), labels, np.array([False, False, True, False]))
    assert figures.metrics["accuracy"].value == 0.5
    assert figures.confusion.tolist() == [[1, 0], [1, 1]]


def test_one_output_is_the_second_class() -> None:
    scores = class_scores(np.array([[0.0], [255 / 256], [0.5]]))
    assert scores.tolist() == [[1.0, 0.0], [1 / 256, 255 / 256], [0.5, 0.5]]
    assert class_scores(np.array([[0.25, 3.0]])).tolist() == [[0.25, 3.0]]
    assert ScoreRows(scores).predicted().tolist() == [0, 1, 0]


def test_calibration_by_hand() -> None:
    confidence, right = np.array([0.05, 0.95, 0.99, 0.5]), np.array([True, True, False, True])
    apart = bin_sums(confidence, right, np.array([0, 1, 0, 1]), 2)
    assert apart[:, 14].tolist() == [[1, 0.99, 0], [1, 0.95, 1]]
    sums = bin_sums(confidence, right, np.zeros(4, np.intp), 1)[0]
    assert np.array_equal(apart.sum(axis=0), sums)
    bins = calibration_bins(sums)
    assert bins[0] == CalibrationBin(0.0, 1 / 15, 1, 0.05, 1.0)
    assert (bins[14].count, bins[14].right) == (2, 0.5)
    expected = (abs(1 - 0.05) + abs(1 - 1.94) + abs(1 - 0.5)) / 4
    assert abs(calibration_error(sums.ravel()) - expected) < CLOSE


def test_outputs_that_are_no_probabilities_have_no_calibration() -> None:
    figures = class_figures(ScoreRows(np.array([[3.0, -1.0]])), np.array([0], np.int32), np.array([False]))
    assert figures.calibration == ()
    assert "ece" not in figures.metrics


@pytest.mark.parametrize("seed", range(8))
def test_real_numbers_as_scikit_learn_has_them(seed: int, oracle: ModuleType) -> None:
    random = np.random.default_rng(seed)
    labels = random.normal(1e3, 10, 50)
    values = labels + random.normal(0, 3, 50)
    found = regression_figures(values, labels)
    theirs = {
        "mae": oracle.mean_absolute_error(labels, values),
        "rmse": oracle.root_mean_squared_error(labels, values),
        "r2": oracle.r2_score(labels, values),
        "largest_error": oracle.max_error(labels, values),
    }
    for name, value in theirs.items():
        ours = found[name].value
        assert ours is not None
        assert abs(ours - value) < 1e-12 * max(1, abs(value)), name


def test_anomalies_as_scikit_learn_has_them(oracle: ModuleType) -> None:
    random = np.random.default_rng(4)
    anomalous = random.random(300) < 0.3
    scores = np.round(random.normal(0, 1, 300) + anomalous, 1)
    metrics, curve = anomaly_figures(scores, anomalous, mlperf=True)
    assert curve is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares, recalls, _ = oracle.precision_recall_curve(anomalous, scores)
    with np.errstate(invalid="ignore"):
        best = np.nanmax(2 * shares * recalls / (shares + recalls))
    expected = {
        "auc": oracle.roc_auc_score(anomalous, scores),
        "pauc": oracle.roc_auc_score(anomalous, scores, max_fpr=0.1),
        "best_f1": best,
        "mlperf_ad_accuracy": ((shares + recalls) / 2)[:-1].max(),
    }
    for name, value in expected.items():
        found = metrics[name].value
        assert found is not None
        assert abs(found - value) < CLOSE, name
    assert reconstruction_scores(np.array([[1.0, 2.0]]), np.array([[1.0, 4.0]])).tolist() == [2.0]


def test_curves_keep_their_area_when_thinned() -> None:
    random = np.random.default_rng(6)
    positive = random.random(5000) < 0.5
    curve = ScoreCounts.of(positive, random.normal(0, 1, 5000) + positive).curve()
    assert curve is not None
    drawn = thinned(curve)
    assert len(drawn.fpr) == CURVE_POINTS
    areas = [float(np.diff(each.fpr) @ (each.tpr[1:] + each.tpr[:-1])) / 2 for each in (curve, drawn)]
    assert abs(areas[0] - areas[1]) < 2e-3


def test_means_of_recordings_in_the_order_of_their_numbers() -> None:
    found = means(np.array([1.0, 4.0, 3.0, 8.0]), np.array([2, 0, 2, 5]))
    assert found.tolist() == [4.0, 2.0, 8.0]
