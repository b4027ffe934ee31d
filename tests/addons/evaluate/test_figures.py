"""From outputs to figures: scores of anomalies, also of recordings by the mean of their windows."""

import numpy as np

from aisrv.addons.evaluate.figures import TaskSettings, figures_of
from aisrv.addons.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec


def test_a_recordings_score_is_the_mean_of_its_windows() -> None:
    outputs = (TensorSpec((1, 2), "int8", 0.5, 0),)
    inputs = np.zeros((6, 2))
    # By window the anomalous recording 1 has the lowest score and the highest; its mean is above the other's.
    values = np.array([[4, 4], [4, 4], [0, 0], [10, 10], [10, 10], [5, 5]], np.int8)
    labels, recordings = np.array([0, 0, 1, 1, 1, 0], np.int32), np.array([0, 0, 1, 1, 1, 2])
    answers = Answers(6, 2, 10)
    answers.put(0, values.view(np.uint8), ())
    settings = TaskSettings("anomaly", score="reconstruction")

    def auc(of: np.ndarray | None) -> float | None:  # type: ignore[type-arg]
        found = figures_of(settings, answers, outputs, labels, lambda rows: inputs[rows], of)
        return found.metrics["auc"].value

    assert auc(recordings) == 1.0
    assert auc(None) == 6 / 9  # two of three anomalous windows are above all three normal ones
    answers.fail(3, "why")
    answers.fail(4, "why")
    assert auc(recordings) == 0.0
