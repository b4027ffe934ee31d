"""The report of a sweep in one HTML file with a chart as inline SVG: it loads nothing and runs no script.

Latency is to the right, memory upwards, both as logarithms; each model has a color, and its accuracy beside
its name. The template `sweep.html.j2` is the page.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.addons.evaluate.sweep import wording
from aisrv.addons.evaluate.sweep.front import Place
from aisrv.addons.evaluate.sweep.sweep import FrontPoint, SweepResult, spell_rate
from aisrv.addons.evaluate.sweep.terminal import sorted_points
from aisrv.addons.predict.template import render
from aisrv.inference.timings import spell

WIDTH: Final = 820
HEIGHT: Final = 420
LARGEST_BEHIND: Final = 2000
"""Points behind the front that are drawn."""
LARGEST_TABLE: Final = 200
"""Rows of a table."""

_COLORS: Final = 8
"""Colors of models; more than that share them."""
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of the chart: its place, the ends of its band, and what is said of it."""

    x: float
    y: float
    low: float
    high: float
    color: int
    place: str
    title: str
    is_smallest: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the chart's grid with its number."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The points with both axes, and where the wanted rate lies."""

    dots: Sequence[Dot]
    columns: Sequence[Tick]
    rows: Sequence[Tick]
    limit: float | None
    left_out: int


@dataclass(frozen=True, slots=True)
class Row:
    """A point of the front as a row of a table."""

    latency: str
    rate: str
    bytes: str
    accuracy: str
    model: str
    color: int
    devices: Sequence[str]
    is_smallest: bool


def to_html(result: SweepResult) -> str:
    """Return the whole file."""
    return render(
        "aisrv.addons.evaluate",
        "sweep.html.j2",
        result=result,
        answer=wording.answer(result),
        names=", ".join(each.model.name for each in result.models),
        models=[
            (
                number % _COLORS,
                each.model.name,
                wording.model_text(result, each),
                wording.misfits(result, number),
            )
            for number, each in enumerate(result.models)
        ],
        chart=_chart(result),
        width=WIDTH,
        height=HEIGHT,
        tables=[
            (title, [_row(result, each) for each in points[:LARGEST_TABLE]], len(points))
            for title, points in (
                ("The front", sorted_points(result, Place.FRONT)),
                ("Perhaps on the front", sorted_points(result, Place.PERHAPS)),
            )
            if points
        ],
        fitting=sum(cell.total is not None for cell in result.cells),
        smallest=None if result.smallest is None else result.cells[result.smallest],
        wording=wording,
    )


def _row(result: SweepResult, point: FrontPoint) -> Row:
    cell = result.cells[point.cells[0]]
    each = result.models[cell.model]
    return Row(
        wording.latency_of(cell),
        spell_rate(cell.rate(sure=False)),
        f"{cell.bytes:,}",
        "" if each.accuracy is None else wording.interval(each.accuracy.metric),
        each.model.name,
        cell.model % _COLORS,
        [wording.device_of(result, result.cells[number]) for number in point.cells],
        result.smallest in point.cells,
    )


def _chart(result: SweepResult) -> Chart | None:
    shown = [
        point
        for place in (Place.BEHIND, Place.PERHAPS, Place.FRONT)
        for point in sorted_points(result, place)[: LARGEST_BEHIND if place is Place.BEHIND else None]
    ]
    if not shown:
        return None
    cells = [result.cells[point.cells[0]] for point in shown]
    ends = [
        end
        for cell in cells
        if cell.total
        for end in map(cell.total.in_ms, (cell.total.low, cell.total.high))
    ]
    wanted = result.sweep.want.rate
    limit = None if wanted is None else 1000 / wanted
    across, columns = _axis([*ends, *([] if limit is None else [limit])], WIDTH, _latency, (1, 2, 5))
    up, rows = _axis([cell.bytes / _KIB for cell in cells], HEIGHT, _kib, (1, 2, 5))
    dots = []
    for point, cell in zip(shown, cells, strict=True):
        if cell.total is None:
            continue
        low, high = (across(cell.total.in_ms(end)) for end in (cell.total.low, cell.total.high))
        dots.append(
            Dot(
                across(cell.total.ms),
                HEIGHT - up(cell.bytes / _KIB),
                low,
                high,
                cell.model % _COLORS,
                point.place.value,
                _title(result, point),
                result.smallest in point.cells,
            )
        )
    flipped = [Tick(HEIGHT - row.at, row.text) for row in rows]
    at = None if limit is None else across(limit)
    return Chart(dots, columns, flipped, at, len(result.points) - len(shown))


def _title(result: SweepResult, point: FrontPoint) -> str:
    row = _row(result, point)
    devices = "\n".join(row.devices[:5])
    more = f"\nand {len(row.devices) - 5} equal" if len(row.devices) > 5 else ""
    accuracy = f", {row.accuracy}" if row.accuracy else ""
    return f"{row.model}{accuracy}\n{row.latency}, {row.rate} a second, {row.bytes} bytes\n{devices}{more}"


def _axis(
    numbers: Sequence[float], length: int, text: Callable[[float], str], steps: Sequence[int]
) -> tuple[Callable[[float], float], list[Tick]]:
    """Return where numbers lie on an axis of logarithms, and the lines of its grid."""
    positive = [number for number in numbers if number > 0] or [1.0]
    low, high = math.log10(min(positive)) - 0.1, math.log10(max(positive)) + 0.1

    def place(number: float) -> float:
        return length * (math.log10(number) - low) / (high - low) if number > 0 else 0.0

    ticks = [
        Tick(place(step * 10.0**power), text(step * 10.0**power))
        for power in range(math.floor(low), math.ceil(high) + 1)
        for step in (steps if high - low < 3 else steps[:1])
        if low <= math.log10(step * 10.0**power) <= high
    ]
    return place, ticks


def _latency(ms: float) -> str:
    return f"{ms:g}" if ms < 1000 else spell(ms)


def _kib(kib: float) -> str:
    return f"{kib:,.0f} K" if kib >= 1 else f"{kib:g} K"
