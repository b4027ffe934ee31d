"""The report of a run in one HTML file: it loads nothing and runs no script; one clicks by links.

What is in it is collected here; the template `evaluation.html.j2` is the page.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aisrv.addons.evaluate.folder.result import LARGEST_WRONG
from aisrv.addons.evaluate.inputs.settings import to_toml
from aisrv.addons.evaluate.running.device_run import example_rows
from aisrv.addons.evaluate.sight import picture_of, png
from aisrv.addons.evaluate.terminal import drift_text, figure, layer_text
from aisrv.addons.predict.template import render

if TYPE_CHECKING:
    from aisrv.addons.evaluate.evaluation import Outcome

MAX_CLASSES: Final = 40
"""Classes whose confusion is drawn; of more the table of classes has all."""

_PLOT: Final = 260
"""Side of a square chart."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the confusion: its count, how dark it is, 0 to 1, and where a click leads."""

    count: int
    shade: float
    target: str
    is_right: bool


@dataclass(frozen=True, slots=True)
class ClassRow:
    """A class with its figures."""

    name: str
    examples: int
    recall: str
    precision: str
    f1: str
    recall_share: float
    recall_low: float
    recall_high: float


@dataclass(frozen=True, slots=True)
class WrongExample:
    """An example that is wrong: its picture as a data URI, and its best classes with their scores."""

    index: int
    path: str
    label: str
    predicted: str
    reason: str
    picture: str
    scores: Sequence[tuple[str, float, bool]]


@dataclass(frozen=True, slots=True)
class WrongGroup:
    """Wrong examples of one cell of the confusion, or those that failed."""

    target: str
    title: str
    examples: Sequence[WrongExample]
    count: int


@dataclass(frozen=True, slots=True)
class Plot:
    """A curve in a square chart, as points of SVG."""

    title: str
    points: str
    note: str


def wrong_pictures(outcome: "Outcome") -> dict[int, bytes]:
    """Return pictures of wrong examples as the model saw them, PNG by index; none of those that are none."""
    loaded = outcome.loaded
    indices = [int(each) for each in outcome.figures.wrong[:LARGEST_WRONG]]
    found = {}
    for index, row, _, failure in example_rows(loaded.data, loaded.preparation, indices):
        pixels = None if failure else picture_of(row, loaded.inputs[0], loaded.settings[0])
        if pixels is not None:
            found[index] = png(pixels)
    return found


def to_html(outcome: "Outcome", pictures: Mapping[int, bytes]) -> str:
    """Return the whole file; `pictures` are those of wrong examples."""
    result = outcome.result
    groups = _groups(result, pictures)
    first = next(iter(result["metrics"]), "")
    return render(
        __package__,
        "evaluation.html.j2",
        result=result,
        plan=outcome.plan,
        loaded=outcome.loaded,
        name=outcome.plan["model"]["name"],
        headline=first,
        figures=[
            (name, figure(name, each), each)
            for name, each in result["metrics"].items()
            if "." not in name and each["value"] is not None
        ],
        confusion=_confusion(result, {group.target for group in groups}),
        classes=_classes(result),
        groups=groups,
        calibration=_calibration(result),
        roc=[_curve(result, each) for each in result["roc"]],
        side=_PLOT,
        settings=to_toml(outcome.loaded.settings),
        drift_text=drift_text,
        layer_text=layer_text,
    )


def _name(result: Mapping[str, Any], number: int) -> str:
    names: Sequence[str] = result["classes"]
    return names[number] if 0 <= number < len(names) else str(number)


def _confusion(result: Mapping[str, Any], targets: set[str]) -> list[list[Cell]]:
    confusion = result["confusion"]
    if not confusion or len(confusion) > MAX_CLASSES:
        return []
    wrong = max(
        (count for label, row in enumerate(confusion) for place, count in enumerate(row) if place != label),
        default=0,
    )
    rows = []
    for label, row in enumerate(confusion):
        total = sum(row) or 1
        cells = []
        for predicted, count in enumerate(row):
            is_right = label == predicted
            shade = count / total if is_right else count / (wrong or 1)
            target = f"cell-{label}-{predicted}"
            cells.append(Cell(count, shade, target if target in targets else "", is_right))
        rows.append(cells)
    return rows


def _classes(result: Mapping[str, Any]) -> list[ClassRow]:
    metrics = result["metrics"]
    found = []
    for number, row in enumerate(result["confusion"] or ()):
        recall = metrics[f"recall.{number}"]
        found.append(
            ClassRow(
                _name(result, number),
                sum(row),
                figure("recall", recall),
                figure("precision", metrics[f"precision.{number}"]),
                figure("f1", metrics[f"f1.{number}"]),
                recall["value"] or 0.0,
                recall["low"] or 0.0,
                recall["high"] or 0.0,
            )
        )
    return found


def _groups(result: Mapping[str, Any], pictures: Mapping[int, bytes]) -> list[WrongGroup]:
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for each in result["wrong"]:
        target = "failed" if "failed" in each else f"cell-{each['label']}-{each['predicted']}"
        cells.setdefault(target, []).append(each)
    groups = []
    for target, members in sorted(cells.items(), key=lambda cell: (-len(cell[1]), cell[0])):
        label, predicted = (_name(result, members[0][key]) for key in ("label", "predicted"))
        title = "failed" if target == "failed" else f"{label} taken for {predicted}"
        examples = [_wrong(result, each, pictures.get(each["index"])) for each in members]
        groups.append(WrongGroup(target, title, examples, len(members)))
    return groups


def _wrong(result: Mapping[str, Any], each: Mapping[str, Any], picture: bytes | None) -> WrongExample:
    encoded = "" if picture is None else f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    scores: Sequence[tuple[str, float, bool]] = ()
    if "failed" not in each and len(each["scores"]) > 1:
        order = sorted(range(len(each["scores"])), key=lambda place: -each["scores"][place])[:3]
        if each["label"] not in order and each["label"] < len(each["scores"]):
            order.append(each["label"])
        scores = [
            (_name(result, place), max(0.0, min(each["scores"][place], 1.0)), place == each["label"])
            for place in order
        ]
    return WrongExample(
        each["index"],
        each["path"],
        _name(result, each["label"]),
        _name(result, each["predicted"]),
        each.get("failed", ""),
        encoded,
        scores,
    )


def _calibration(result: Mapping[str, Any]) -> list[tuple[float, float, float, str]]:
    """Return the bars of the calibration: left, width, height, and what is said of each."""
    bars = []
    for each in result["calibration"]:
        if each["count"]:
            text = (
                f"{each['count']:,} examples, {100 * each['low']:.0f} to {100 * each['high']:.0f} % sure: "
                f"{100 * each['right']:.1f} % right, {100 * each['confidence']:.1f} % said"
            )
            width = (each["high"] - each["low"]) * _PLOT
            bars.append((each["low"] * _PLOT, width, each["right"] * _PLOT, text))
    return bars


def _curve(result: Mapping[str, Any], each: Mapping[str, Any]) -> Plot:
    points = " ".join(
        f"{_PLOT * x:.1f},{_PLOT * (1 - y):.1f}" for x, y in zip(each["fpr"], each["tpr"], strict=True)
    )
    return Plot(_name(result, each["class"]), points, figure("auc", each["auc"]))
