"""A sweep: what fits, then how long it takes, then how right it is, and no more than is needed."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.figures import TaskSettings
from aisrv.addons.evaluate.folder.parts import describe_refused
from aisrv.addons.evaluate.request import Loaded, Request, load
from aisrv.addons.evaluate.running.local_run import LocalSettings
from aisrv.addons.evaluate.sweep.accuracy import Accuracy, OnCount, check_engine, measure
from aisrv.addons.evaluate.sweep.cells import Cell, SweptModel, cells_of, read_models
from aisrv.addons.evaluate.sweep.folder import SweepFolder
from aisrv.addons.evaluate.sweep.front import Place, Point, places
from aisrv.addons.evaluate.sweep.settings import Sweep, SweepData
from aisrv.values.printable import printable

RUN_SECONDS: Final = 60.0
"""Time that a run of a model may take here."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ModelResult:
    """What a sweep found of a model."""

    model: SweptModel
    path: str
    accuracy: Accuracy | None = None
    skipped: str = ""
    """Why its accuracy was not measured; empty where it was, or was not asked for."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Cells that are equal in latency, memory and accuracy, and where they lie."""

    cells: tuple[int, ...]
    """Their numbers; the first one is the smallest by clock, threads and name."""
    place: Place


@dataclass(slots=True)
class SweepResult:
    """All that a sweep found, as far as it came."""

    sweep: Sweep
    models: list[ModelResult] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    points: list[FrontPoint] = field(default_factory=list)
    smallest: int | None = None
    """Number of the smallest cell that does what is wanted; None where none does, or nothing is wanted."""
    interrupted: bool = False
    """Whether Ctrl-C ended it."""
    late: bool = False
    """Whether time was up."""

    @property
    def is_partial(self) -> bool:
        """Return whether something was left undone."""
        return self.interrupted or self.late

    @property
    def asks(self) -> bool:
        """Return whether the file says what is wanted."""
        return self.sweep.want.rate is not None or self.sweep.want.accuracy is not None

    def rate(self, cell: Cell) -> float:
        """Return the inferences a second that count."""
        return cell.rate(sure=self.sweep.want.sure)

    def share(self, cell: Cell) -> float | None:
        """Return the accuracy that counts; None where none was measured."""
        found = self.models[cell.model].accuracy
        if found is None or found.metric.value is None:
            return None
        return found.metric.low if self.sweep.want.sure else found.metric.value

    def meets(self, cell: Cell) -> bool:
        """Return whether a cell does what is wanted."""
        want = self.sweep.want
        if cell.total is None or (want.rate is not None and self.rate(cell) < want.rate):
            return False
        share = self.share(cell)
        return want.accuracy is None or (share is not None and share >= want.accuracy)

    def order(self, number: int) -> tuple[object, ...]:
        """Return what the smallest cell is the least of: bytes, clock, threads, latency, name."""
        cell = self.cells[number]
        ms = 0.0 if cell.total is None else cell.total.ms
        name = self.models[cell.model].model.name
        return cell.bytes, cell.clock_mhz, cell.threads, ms, cell.board, name, cell.configuration, number


def run_sweep(
    sweep: Sweep,
    processes: int,
    on_count: Callable[[str], OnCount] = lambda _name: lambda _done, _total, _wrong: None,
    folder: SweepFolder | None = None,
) -> SweepResult:
    """Sweep; EvaluateError, OSError. Ctrl-C ends it with what is done.

    `processes` are those of an engine; `on_count` gives what is called as examples of a model are done.
    Accuracies that the `folder` has are not measured again, others are kept there.
    """
    end = time.monotonic() + 60 * sweep.stop.minutes
    result = SweepResult(sweep)

    def is_late() -> bool:
        result.late = result.late or time.monotonic() > end
        return result.late

    swept = read_models(sweep)
    result.models = [
        ModelResult(model, str(each.path)) for model, each in zip(swept, sweep.models, strict=True)
    ]
    data = sweep.data
    loaded = None if data is None else _load(result, data)
    try:
        for number, model in enumerate(swept):
            for cell in cells_of(sweep, number, model):
                result.cells.append(cell)
                if is_late():
                    break
        if loaded is not None and data is not None:
            _skip(result)
            known = {} if folder is None else _known(result, data, loaded, folder)
            _measure(result, data, loaded, processes, on_count, is_late, folder, known)
    except KeyboardInterrupt:
        result.interrupted = True
    _finish(result)
    return result


def _load(result: SweepResult, data: SweepData) -> list[Loaded]:
    """Read the data for each model, before anything runs."""
    check_engine(data.engine)
    loaded = []
    for each in result.sweep.models:
        request = Request(
            each.path,
            data.uri,
            data.labels,
            {},
            data.inputs,
            data.limit,
            data.engine,
            task=TaskSettings(),
            memory=data.memory,
        )
        ready = load(request)
        if not len(ready.data):
            raise EvaluateError(f"{data.uri}: no examples")
        if ready.data.arrays:
            try:
                ready.preparation.array_rows([array[:1] for array in ready.data.arrays])
            except EvaluateError as error:
                raise EvaluateError(f"{each.name}: {error}") from None
        loaded.append(ready)
    return loaded


def _skip(result: SweepResult) -> None:
    """Say of which models no accuracy is needed: they fit nowhere, or are too slow wherever they fit."""
    wanted = result.sweep.want.rate
    for number, each in enumerate(result.models):
        cells = [cell for cell in result.cells if cell.model == number]
        fitting = [cell for cell in cells if cell.total is not None]
        best = max(map(result.rate, fitting), default=0.0)
        if not fitting:
            each.skipped = f"fits nowhere: {cells[0].misfit}" if cells else "time was up"
        elif wanted is not None and best < wanted:
            each.skipped = f"too slow anywhere: {spell_rate(best)} a second at best"


def _known(
    result: SweepResult, data: SweepData, loaded: list[Loaded], folder: SweepFolder
) -> dict[bytes, Accuracy]:
    """Return the accuracies that a folder has, by the models' files. That others are damaged is said."""
    known = {}
    for each, ready in zip(result.models, loaded, strict=True):
        content = ready.file.data
        if not each.skipped and content not in known:
            found = folder.read(ready, data.engine, result.sweep.want.accuracy)
            if found is not None:
                known[content] = found
    if folder.refused:
        _log.warning("%s", printable(describe_refused(folder.refused)))
    return known


def _measure(
    result: SweepResult,
    data: SweepData,
    loaded: list[Loaded],
    processes: int,
    on_count: Callable[[str], OnCount],
    is_late: Callable[[], bool],
    folder: SweepFolder | None,
    known: dict[bytes, Accuracy],
) -> None:
    """Measure the accuracy of each model that is left and not `known`, of equal files once.

    A model that cannot run is skipped, unless none can; then EvaluateError.
    """
    found = dict(known)
    refusal: EvaluateError | None = None
    for each, ready in zip(result.models, loaded, strict=True):
        if each.skipped:
            continue
        content = ready.file.data
        wanted = result.sweep.want.accuracy
        if content not in found:
            if result.interrupted or is_late():
                each.skipped = "interrupted" if result.interrupted else "time was up"
                continue
            settings = LocalSettings(data.engine, content, processes, RUN_SECONDS)
            try:
                accuracy, result.interrupted = measure(
                    ready, settings, wanted, on_count(each.model.name), is_late
                )
            except EvaluateError as error:
                refusal = error
                each.skipped = str(error)
                continue
            if not accuracy.examples:
                each.skipped = "interrupted" if result.interrupted else "time was up"
                continue
            found[content] = accuracy
            if folder is not None and not accuracy.is_cut:
                folder.write(ready, data.engine, wanted, accuracy)
        each.accuracy = found[content]
    if refusal is not None and not found:
        raise refusal


def _finish(result: SweepResult) -> None:
    """Find the front and the smallest of what is there."""
    everything = range(len(result.cells))
    if result.sweep.data is not None:
        result.points = list(_front(result, everything))
    else:  # models of which nobody knows how right they are do not compare
        for model in range(len(result.models)):
            result.points += _front(
                result, [each for each in everything if result.cells[each].model == model]
            )
    meeting = [number for number, cell in enumerate(result.cells) if result.meets(cell)]
    if result.asks and meeting:
        result.smallest = min(meeting, key=result.order)


def _front(result: SweepResult, numbers: Sequence[int]) -> Iterator[FrontPoint]:
    """Yield the points of cells, by their numbers, and where they lie among each other."""
    groups: dict[Point, list[int]] = {}
    for number in numbers:
        point = _point(result, result.cells[number])
        if point is not None:
            groups.setdefault(point, []).append(number)
    for equal, place in zip(groups.values(), places(list(groups)), strict=True):
        yield FrontPoint(tuple(sorted(equal, key=result.order)), place)


def _point(result: SweepResult, cell: Cell) -> Point | None:
    """Return what a cell is on the front; None where it does not fit, or a wanted accuracy is not known."""
    total, each = cell.total, result.models[cell.model]
    if total is None:
        return None
    band = _rounded(total.ms), _rounded(total.in_ms(total.low)), _rounded(total.in_ms(total.high))
    if result.sweep.data is None:
        return Point(*band, cell.bytes, model=cell.model)
    if each.accuracy is None:
        return None
    metric = each.accuracy.metric
    shares = (metric.value or 0.0, metric.low or 0.0, metric.high or 0.0)
    return Point(*band, cell.bytes, *shares, cell.model)


def _rounded(ms: float) -> float:
    """Round a time to the digits in which it is shown: boards count ticks of different lengths."""
    return float(f"{ms:.3g}")


def spell_rate(rate: float) -> str:
    """Write inferences a second in about three digits."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.3g}"
