"""Two runs of the same examples beside each other: how far their outputs are apart, and who is right."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.figures import output_values, predict, real_values, scores_of
from aisrv.addons.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first element that differs: of which example and output, and both values."""

    index: int
    output: int
    element: int
    value: float
    other: float


@dataclass(slots=True)
class OutputDrift:
    """Sums over examples of how far one output of two runs is apart; sums of parts add up."""

    examples: int = 0
    differing: int = 0
    """Examples of which some element differs."""
    elements: int = 0
    largest: float = 0.0
    """Largest distance in real numbers."""
    total: float = 0.0
    largest_steps: float | None = None
    """The same in steps of the output, where both have the same scale; else None."""
    total_steps: float | None = None
    squares: float = 0.0
    """Of the first run's values."""
    other_squares: float = 0.0
    products: float = 0.0
    error_squares: float = 0.0

    def values(self) -> dict[str, Any]:
        """Return the figures by name; None for one that equal outputs do not have."""
        norm = math.sqrt(self.squares * self.other_squares)
        return {
            "examples": self.examples,
            "differing": self.differing,
            "max_abs": self.largest,
            "mean_abs": self.total / self.elements if self.elements else None,
            "max_steps": self.largest_steps,
            "mean_steps": None if self.total_steps is None else self.total_steps / max(self.elements, 1),
            "cosine": self.products / norm if norm else None,
            "sqnr_db": sqnr_db(self.squares, self.error_squares),
        }


def sqnr_db(squares: float, error_squares: float) -> float | None:
    """Return the signal to quantization noise in dB: sums of squared values over squared errors.

    None where nothing differs, or all values are 0.
    """
    return 10 * math.log10(squares / error_squares) if squares and error_squares else None


def drift(
    one: npt.NDArray[Any], other: npt.NDArray[Any], spec: TensorSpec, other_spec: TensorSpec
) -> OutputDrift:
    """Compare one output of two runs, [examples, elements] each, of the tensors `spec` and `other_spec`."""
    first, second = real_values(one, spec), real_values(other, other_spec)
    distance = np.abs(first - second)
    distance[np.isnan(distance)] = math.inf
    same_steps = (spec.dtype, spec.scale, spec.zero_point) == (
        other_spec.dtype,
        other_spec.scale,
        other_spec.zero_point,
    )
    steps = np.abs(one.astype(np.float64) - other.astype(np.float64)) if same_steps else None
    return OutputDrift(
        len(one),
        int((distance > 0).any(axis=1).sum()),
        distance.size,
        float(distance.max(initial=0)),
        float(distance.sum()),
        None if steps is None else float(steps.max(initial=0)),
        None if steps is None else float(steps.sum()),
        float((first**2).sum()),
        float((second**2).sum()),
        float((first * second).sum()),
        float((distance**2).sum()),
    )


def first_difference(
    one: Answers, other: Answers, outputs: Sequence[TensorSpec], other_outputs: Sequence[TensorSpec]
) -> FirstDifference | None:
    """Return the first element of two runs that differs, of examples that both ran; None where all agree.

    `outputs` and `other_outputs` are those of the two models.
    """
    both = _both(one, other)
    best: FirstDifference | None = None
    for number, (spec, other_spec) in enumerate(zip(outputs, other_outputs, strict=False)):
        first = real_values(output_values(one, outputs, number)[both], spec)
        second = real_values(output_values(other, other_outputs, number)[both], other_spec)
        if first.shape != second.shape:
            continue
        rows = np.flatnonzero((first != second).any(axis=1))
        if len(rows) and (best is None or both[rows[0]] < best.index):
            row = int(rows[0])
            element = int(np.flatnonzero(first[row] != second[row])[0])
            values = float(first[row, element]), float(second[row, element])
            best = FirstDifference(int(both[row]), number, element, *values)
    return best


def compare_runs(
    one: Answers,
    other: Answers,
    outputs: Sequence[TensorSpec],
    other_outputs: Sequence[TensorSpec],
    labels: npt.NDArray[np.int32] | None,
) -> dict[str, Any]:
    """Return how two runs differ, as the result has it, over the examples that both ran.

    `outputs` and `other_outputs` are those of the two models; `labels` are the classes of all examples, None
    for a task without.
    """
    both = _both(one, other)
    found: dict[str, Any] = {"examples": len(both), "outputs": []}
    for number, (spec, other_spec) in enumerate(zip(outputs, other_outputs, strict=False)):
        first = output_values(one, outputs, number)[both]
        second = output_values(other, other_outputs, number)[both]
        if first.shape != second.shape:
            found["outputs"].append({"shapes": [list(spec.shape), list(other_spec.shape)]})
            continue
        found["outputs"].append(drift(first, second, spec, other_spec).values())
    comparable = [each for each in found["outputs"] if "shapes" not in each]
    if comparable:
        # The worst of all outputs, for bounds; no ratio at all is best.
        ratios = [each["sqnr_db"] for each in comparable if each["sqnr_db"] is not None]
        steps = [each["max_steps"] for each in comparable]
        found["sqnr_db"] = min(ratios, default=None)
        found["max_abs"] = max(each["max_abs"] for each in comparable)
        found["max_steps"] = None if None in steps else max(steps)
        found["differing"] = max(each["differing"] for each in comparable)
    if labels is not None:
        found |= _agreement(one, other, outputs, other_outputs, labels, both)
    difference = first_difference(one, other, outputs, other_outputs)
    found["first"] = (
        None
        if difference is None
        else {
            "index": difference.index,
            "output": difference.output,
            "element": difference.element,
            "values": [difference.value, difference.other],
        }
    )
    return found


def _agreement(
    one: Answers,
    other: Answers,
    outputs: Sequence[TensorSpec],
    other_outputs: Sequence[TensorSpec],
    labels: npt.NDArray[np.int32],
    both: npt.NDArray[np.intp],
) -> dict[str, Any]:
    first = predict(scores_of(one, outputs), one)[both]
    second = predict(scores_of(other, other_outputs), other)[both]
    own, others = first == labels[both], second == labels[both]
    count = len(both)
    return {
        "agreement": float((first == second).mean()) if count else None,
        "right_here_only": int((own & ~others).sum()),
        "right_there_only": int((others & ~own).sum()),
        "accuracy_there": float(others.mean()) if count else None,
        "changed": both[own != others].tolist()[:200],
    }


def _both(one: Answers, other: Answers) -> npt.NDArray[np.intp]:
    """Examples that both runs have an answer for."""
    seen = one.done & other.done
    seen[list(one.failed) + list(other.failed)] = False
    return np.flatnonzero(seen)
