"""A sweep as text for a terminal."""

from collections.abc import Iterator, Sequence
from typing import Final

from aisrv.addons.evaluate.sweep import wording
from aisrv.addons.evaluate.sweep.front import Place
from aisrv.addons.evaluate.sweep.sweep import FrontPoint, SweepResult, spell_rate

LISTED: Final = 20
"""Points of the front, and of those that are perhaps on it, that are listed."""


def describe(result: SweepResult) -> str:
    """Return what a sweep came to."""
    return "\n".join(_lines(result))


def _lines(result: SweepResult) -> Iterator[str]:
    fitting = sum(cell.total is not None for cell in result.cells)
    yield f"{len(result.cells):,} of {result.sweep.cells:,} cells, {fitting:,} fit"
    for number, each in enumerate(result.models):
        yield f"{each.model.name}: {wording.model_text(result, each)}"
        for reason in wording.misfits(result, number):
            yield f"  does not fit {reason}"
    directions = "latency and memory" if result.sweep.data is None else "latency, memory and accuracy"
    for place, title in _TITLES.items():
        points = sorted_points(result, place)
        if points:
            yield ""
            yield f"{title.format(directions)}:"
            yield from _table(_rows(result, points[:LISTED]))
            if len(points) > LISTED:
                yield f"and {len(points) - LISTED:,} more, which --json and --html have"
    if result.asks:
        yield ""
        yield wording.answer(result)
        if result.smallest is not None:
            cell = result.cells[result.smallest]
            yield f"a run takes {wording.latency_of(cell)}; {wording.memory_of(cell)}"


_TITLES: Final = {
    Place.FRONT: "the front: nothing beats these in {} at once",
    Place.PERHAPS: "perhaps on the front: what beats these does so within the bands",
}


def sorted_points(result: SweepResult, place: Place) -> list[FrontPoint]:
    """Return the points of a place, the fastest first."""
    points = [each for each in result.points if each.place is place]
    return sorted(points, key=lambda each: (-result.cells[each.cells[0]].rate(sure=False), each.cells))


def _rows(result: SweepResult, points: Sequence[FrontPoint]) -> Iterator[Sequence[str]]:
    yield "latency", "a second", "bytes", "accuracy", "model", "device"
    for point in points:
        cell = result.cells[point.cells[0]]
        each = result.models[cell.model]
        accuracy = "" if each.accuracy is None else wording.interval(each.accuracy.metric)
        equal = f", and {len(point.cells) - 1} equal" if len(point.cells) > 1 else ""
        yield (
            wording.latency_of(cell),
            spell_rate(cell.rate(sure=False)),
            f"{cell.bytes:,}",
            accuracy,
            each.model.name,
            f"{wording.device_of(result, cell)}{equal}",
        )


def _table(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Align columns, and leave out empty ones."""
    found = list(rows)
    columns = [number for number in range(len(found[0])) if any(row[number] for row in found[1:])]
    widths = {number: max(len(row[number]) for row in found) for number in columns}
    for row in found:
        cells = (
            row[number].rjust(widths[number]) if number in (1, 2) else row[number].ljust(widths[number])
            for number in columns
        )
        yield f"  {'  '.join(cells).rstrip()}"
