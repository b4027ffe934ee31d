"""From answers to figures: what the outputs say by the task, and how right that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.data.data_set import NO_LABEL
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.metrics.anomaly import anomaly_figures, means, reconstruction_scores
from aisrv.addons.evaluate.metrics.classes import (
    CalibrationBin,
    ClassCurve,
    class_figures,
    class_scores,
)
from aisrv.addons.evaluate.metrics.intervals import Metric
from aisrv.addons.evaluate.metrics.regression import regression_figures
from aisrv.addons.evaluate.metrics.summary import ScoreRows
from aisrv.addons.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec

Task = Literal["classes", "regression", "anomaly"]
RECONSTRUCTION: Final = "reconstruction"
"""The score of an anomaly that is the mean squared distance of input and output."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What is computed of the outputs."""

    task: Task = "classes"
    top: tuple[int, ...] = (1,)
    """Numbers of best classes among which a label may be."""
    curves: bool = False
    """Whether each class has its ROC curve."""
    score: str = "0"
    """The output that is an anomaly's score, by number, or RECONSTRUCTION."""
    mlperf: bool = False
    """Whether anomalies have MLPerf's accuracy of ad01, too."""
    metrics: tuple[str, ...] = ()
    """Functions of the user's own, as module:function."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is known of how right the answers are."""

    metrics: dict[str, Metric]
    predicted: npt.NDArray[np.int32]
    """Class of each example; NO_LABEL for those that failed, did not run, or where there are no classes."""
    wrong: npt.NDArray[np.intp]
    """Examples whose class is not their label, with those that failed, in order."""
    scores: ScoreRows
    """By class or output, as real numbers."""
    confusion: npt.NDArray[np.int64] | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    curves: tuple[ClassCurve, ...] = ()
    ties: int = 0
    by_class: bool = field(default=False)
    """Whether metrics of single classes are among the others, as `recall.3`."""


def output_values(answers: Answers, outputs: Sequence[TensorSpec], number: int = 0) -> npt.NDArray[Any]:
    """Return an output of all examples, [examples, elements], in its own type.

    `outputs` are the model's, of which `number` is wanted.
    """
    start = sum(spec.nbytes for spec in outputs[:number])
    spec = outputs[number]
    data = np.ascontiguousarray(answers.outputs[:, start : start + spec.nbytes])
    return data.view(np.dtype(spec.dtype).newbyteorder("<"))


def real_values(elements: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[np.float64]:
    """Return elements of the tensor `spec` as real numbers, or as its integers where it is not quantized."""
    real = elements.astype(np.float64)
    if spec.scale is not None:
        real -= spec.zero_point
        real *= spec.scale
    return real


def scores_of(answers: Answers, outputs: Sequence[TensorSpec]) -> ScoreRows:
    """Return the scores of all examples by class, of the first of `outputs`; a single one is of class 1."""
    spec = outputs[0]
    return ScoreRows(output_values(answers, outputs), lambda each: class_scores(real_values(each, spec)))


def count_of_classes(outputs: Sequence[TensorSpec]) -> int:
    """Return how many classes the first of `outputs` has scores for."""
    return max(int(np.prod(outputs[0].shape)), 2)


def predict(scores: ScoreRows, answers: Answers) -> npt.NDArray[np.int32]:
    """Return the class of each example by scores; NO_LABEL where it failed or did not run."""
    predicted = scores.predicted()
    predicted[~answers.done] = NO_LABEL
    predicted[list(answers.failed)] = NO_LABEL
    return predicted


def part_classes(task: Task, part: Answers, outputs: Sequence[TensorSpec]) -> npt.NDArray[np.int32]:
    """Return the class of each example as parts keep it; NO_LABEL for all where the task has no classes.

    `outputs` are the model's.
    """
    if task != "classes":
        return np.full(len(part), NO_LABEL, np.int32)
    return predict(scores_of(part, outputs), part)


def figures_of(
    settings: TaskSettings,
    answers: Answers,
    outputs: Sequence[TensorSpec],
    labels: npt.NDArray[Any],
    inputs: Callable[[npt.NDArray[np.intp]], npt.NDArray[np.float64]],
    recordings: npt.NDArray[np.intp] | None = None,
) -> Figures:
    """Return the figures of the examples that are done; EvaluateError.

    `labels` are classes, or real numbers, of all examples; `inputs` gives the first input of examples as real
    numbers, [examples, elements], for those who compare it with the output. `recordings` says which recording
    each example is a window of: a recording's score as an anomaly is the mean of its windows'.
    """
    ran = np.flatnonzero(answers.done)
    if settings.task == "anomaly":
        found = _anomaly(settings, answers, outputs, labels, inputs, ran, recordings)
    else:
        found = _TASKS[settings.task](settings, answers, outputs, labels, ran)
    for name in settings.metrics:
        found.metrics.update(own_metrics(name, labels[ran], output_values(answers, outputs)[ran]))
    return found


def _classes(
    settings: TaskSettings,
    answers: Answers,
    outputs: Sequence[TensorSpec],
    labels: npt.NDArray[Any],
    ran: npt.NDArray[np.intp],
) -> Figures:
    scores = scores_of(answers, outputs)
    predicted = predict(scores, answers)
    failed = np.zeros(len(answers), bool)
    failed[list(answers.failed)] = True
    step = outputs[0].scale or 0.0
    seen = scores if len(ran) == len(answers) else scores.some(ran)
    found = class_figures(seen, labels[ran], failed[ran], step=step, top=settings.top, curves=settings.curves)
    wrong = ran[predicted[ran] != labels[ran]]
    return Figures(
        found.metrics, predicted, wrong, scores, found.confusion, found.calibration, found.curves, found.ties
    )


def _regression(
    _settings: TaskSettings,
    answers: Answers,
    outputs: Sequence[TensorSpec],
    labels: npt.NDArray[Any],
    ran: npt.NDArray[np.intp],
) -> Figures:
    values = real_values(output_values(answers, outputs), outputs[0])
    if values.shape[1] != 1:
        raise EvaluateError(f"a regression has one output, the model has {outputs[0]}")
    seen = _seen(answers, ran)
    predicted = np.full(len(answers), NO_LABEL, np.int32)
    metrics = regression_figures(values[seen, 0], labels[seen].astype(np.float64))
    return Figures(metrics, predicted, np.array(sorted(answers.failed), np.intp), ScoreRows(values))


def _anomaly(
    settings: TaskSettings,
    answers: Answers,
    outputs: Sequence[TensorSpec],
    labels: npt.NDArray[Any],
    inputs: Callable[[npt.NDArray[np.intp]], npt.NDArray[np.float64]],
    ran: npt.NDArray[np.intp],
    recordings: npt.NDArray[np.intp] | None,
) -> Figures:
    seen = _seen(answers, ran)
    if settings.score == RECONSTRUCTION:
        values = real_values(output_values(answers, outputs), outputs[0])
        scores = np.zeros(len(answers))
        scores[seen] = reconstruction_scores(inputs(seen), values[seen])
    else:
        flat = real_values(output_values(answers, outputs), outputs[0])
        number = int(settings.score) if settings.score.isdigit() else -1
        if not 0 <= number < flat.shape[1]:
            raise EvaluateError(
                f"--score {settings.score}: an output, 0 to {flat.shape[1] - 1}, or {RECONSTRUCTION}"
            )
        scores = flat[:, number]
    judged, anomalous = scores[seen], labels[seen] != 0
    if recordings is not None:
        judged, anomalous = means(judged, recordings[seen]), means(anomalous, recordings[seen]) > 0
    metrics, curve = anomaly_figures(judged, anomalous, settings.mlperf)
    curves = () if curve is None else (ClassCurve(1, curve, metrics["auc"]),)
    predicted = np.full(len(answers), NO_LABEL, np.int32)
    failed = np.array(sorted(answers.failed), np.intp)
    return Figures(metrics, predicted, failed, ScoreRows(scores[:, None]), curves=curves)


def _seen(answers: Answers, ran: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    return np.setdiff1d(ran, list(answers.failed)).astype(np.intp)


_TASKS: Final[Mapping[str, Callable[..., Figures]]] = {
    "classes": _classes,
    "regression": _regression,
}


def own_metrics(name: str, labels: npt.NDArray[Any], outputs: npt.NDArray[Any]) -> dict[str, Metric]:
    """Return the metrics of a function of the user's own, `name` as module:function; EvaluateError.

    It is called with `labels` and `outputs`, and returns numbers by name; they have no intervals.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)(labels, outputs)
        return {str(key): Metric(float(value)) for key, value in found.items()}
    except Exception as error:  # whatever a user's function raises
        raise EvaluateError(f"--metric {name}: {type(error).__name__}: {error}") from error
