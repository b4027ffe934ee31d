"""The result of a run as JSON has it: what result.json holds, --json prints, and bounds name."""

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy.typing as npt

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.figures import Figures
from aisrv.addons.evaluate.folder.parts import PartFile
from aisrv.addons.evaluate.folder.plan import FORMAT, ModelFile, plan_hash
from aisrv.addons.evaluate.metrics.intervals import Metric
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.predict.profile import Configuration, profile_model
from host_tools.tensors.tensor_spec import TensorSpec

LARGEST_WRONG: Final = 200
"""Wrong examples that a result lists; parts have all of them."""

_BOUND: Final = re.compile(r"([\w.]+)\s*(>=|<=|>|<|==)\s*(-?[\d.]+(?:e-?\d+)?)")
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def device_latency(model: ModelFile) -> dict[str, Any] | None:
    """Return what one inference takes on the modeled device, with its band; None where it is not known."""
    from aisrv.addons.predict.profile import ProfileError

    try:
        profile = profile_model(model.data, Configuration(), name=model.name)
    except ProfileError:
        return None
    total = profile.total
    return {
        "ticks": total.ticks,
        "ms": total.ms,
        "ms_low": total.in_ms(total.low),
        "ms_high": total.in_ms(total.high),
        "cycle_ticks": None,
        "basis_shares": {basis.value: share for basis, share in profile.basis_shares.items()},
    }


def make_result(
    plan: dict[str, Any],
    model: ModelFile,
    data: DataSet,
    answers: Answers,
    figures: Figures,
    labels: npt.NDArray[Any],
    outputs: Sequence[TensorSpec],
    *,
    date: str,
    cpu: str,
    parts: Sequence[PartFile] = (),
    against: Mapping[str, Any] | None = None,
    check: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the result of a run.

    `plan` is the run's, of `model` on `data`; `labels` are what is right, `outputs` the model's tensors,
    `date` the time in UTC, `cpu` this machine's processor, `parts` the files with all answers, `against` how
    another run differs, and `check` what a virtual device said.
    """
    host = answers.host_times()
    classes: list[str] = plan["data"]["classes"]
    count = len(figures.confusion) if figures.confusion is not None else 0
    return {
        "format": FORMAT,
        "plan": plan_hash(plan),
        "date": date,
        "partial": not bool(answers.done.all()),
        "examples": int(answers.done.sum()),
        "failed": [{"index": index, "reason": reason} for index, reason in sorted(answers.failed.items())],
        "note": data.note,
        "hidden": data.hidden,
        "metrics": {name: metric_values(each) for name, each in figures.metrics.items()},
        "confusion": None if figures.confusion is None else figures.confusion.tolist(),
        "classes": [classes[number] if number < len(classes) else str(number) for number in range(count)],
        "calibration": [asdict(each) for each in figures.calibration],
        "roc": [
            {
                "class": each.number,
                "fpr": each.curve.fpr.tolist(),
                "tpr": each.curve.tpr.tolist(),
                "auc": metric_values(each.auc),
            }
            for each in figures.curves
        ],
        "ties": figures.ties,
        "latency": {
            "device": device_latency(model),
            "host_ms": {f"p{each}": host.percentile_ms(each) for each in (50, 95, 99)},
        },
        "wrong": [
            _wrong(data, answers, figures, labels, int(index)) for index in figures.wrong[:LARGEST_WRONG]
        ],
        "wrong_count": len(figures.wrong),
        "against": against,
        "check": check,
        "files": bool(data.files),
        "outputs": [asdict(each) | {"shape": list(each.shape)} for each in outputs],
        "parts": [asdict(each) for each in parts],
        "versions": plan["versions"],
        "cpu": cpu,
    }


def metric_values(metric: Metric) -> dict[str, float | None]:
    """Return a metric as JSON has it; what is not finite is null."""
    return {
        name: None if value is None or not math.isfinite(value) else value
        for name, value in metric._asdict().items()
    }


def _wrong(
    data: DataSet, answers: Answers, figures: Figures, labels: npt.NDArray[Any], index: int
) -> dict[str, Any]:
    (scores,) = figures.scores.of([index])
    found = {
        "index": index,
        "path": data.name(index),
        "label": labels[index].item(),
        "predicted": int(figures.predicted[index]),
        "scores": [round(float(each), 6) for each in scores[:32]],
    }
    if index in answers.failed:
        found["failed"] = answers.failed[index]
    return found


def result_bytes(result: Mapping[str, Any]) -> bytes:
    """Return a result as the bytes of its file."""
    return (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode()


def unmet(result: Mapping[str, Any], bounds: Sequence[str]) -> list[str]:
    """Return which of the bounds a result does not meet, with the value; EvaluateError for one that is none.

    A bound is the path of a number in the result and what it is to be, as `accuracy>=0.9`,
    `accuracy.low>=0.85` or `against.agreement>=0.99`; metrics need no `metrics.` and no `.value`. A figure
    that equal outputs do not have, as their noise, meets every bound.
    """
    found = []
    for bound in bounds:
        match = _BOUND.fullmatch(bound.strip())
        if match is None:
            raise EvaluateError(f"--require {bound}: write it as accuracy>=0.9")
        path, sign, wanted = match.groups()
        value = _at(result, path)
        if value is None and path.startswith("against."):
            continue
        if value is None or not _COMPARISONS[sign](value, float(wanted)):
            found.append(
                f"{path} is {'not defined' if value is None else f'{value:.6g}'}, not {sign} {wanted}"
            )
    return found


def _at(result: Mapping[str, Any], path: str) -> float | None:
    """Return the number at a path; EvaluateError where there is none."""
    steps = path.split(".")
    value: Any = result
    metrics = result["metrics"]
    # Names of metrics may have dots: recall.3.
    names = [".".join(steps[:length]) for length in range(len(steps), 0, -1)]
    name = next((each for each in names if each in metrics), None)
    if name is not None:
        value = metrics[name]
        steps = steps[name.count(".") + 1 :] or ["value"]
    for step in steps:
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            raise EvaluateError(f"--require {path}: the result has no {step!r}; it has {_known(value)}")
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise EvaluateError(f"--require {path}: not a number")
    return value


def _known(value: object) -> str:
    if isinstance(value, Mapping):
        metrics = value.get("metrics")
        names = [*metrics, "against"] if isinstance(metrics, Mapping) else list(value)
        return ", ".join(list(map(str, names))[:12])
    return "nothing below it"
