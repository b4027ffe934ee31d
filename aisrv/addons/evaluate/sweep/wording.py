"""What is said of cells and of the answer, in the terminal and in the report alike."""

from collections.abc import Iterable

from aisrv.addons.evaluate.metrics.intervals import Metric
from aisrv.addons.evaluate.sweep.accuracy import Accuracy
from aisrv.addons.evaluate.sweep.cells import Cell
from aisrv.addons.evaluate.sweep.sweep import ModelResult, SweepResult, spell_rate
from aisrv.protocol.memory_map import ModelMemory


def board_of(result: SweepResult, cell: Cell) -> str:
    """Name a cell's board, with the engine where the board has several, and its configuration."""
    several = len(result.sweep.boards[cell.board].engines) > 1
    engine = f", engine {cell.engine}" if several else ""
    name = f", {cell.configuration}" if cell.configuration else ""
    return f"{cell.board}{engine}{name}"


def device_of(result: SweepResult, cell: Cell) -> str:
    """Describe the device of a cell: single at 600 MHz, 1 thread."""
    threads = "1 thread" if cell.threads == 1 else f"{cell.threads} threads"
    return f"{board_of(result, cell)} at {cell.clock_mhz:g} MHz, {threads}"


def memory_of(cell: Cell) -> str:
    """Describe where the model is: 458,752 bytes, model in the arena."""
    place = "arena" if cell.memory is ModelMemory.ARENA else "external memory"
    return f"{cell.bytes:,} bytes, model in the {place}".replace("the external", "external")


def latency_of(cell: Cell) -> str:
    """Write the time of a cell with its band."""
    return "" if cell.total is None else str(cell.total)


def percent(share: float | None) -> str:
    """Write a share in percent."""
    return "" if share is None else f"{100 * share:.1f} %"


def interval(metric: Metric) -> str:
    """Write an accuracy with its interval: 92.1 % (90.4 to 93.5)."""
    if metric.value is None or metric.low is None or metric.high is None:
        return "not defined"
    return f"{percent(metric.value)} ({100 * metric.low:.1f} to {100 * metric.high:.1f})"


def accuracy_text(found: Accuracy) -> str:
    """Describe an accuracy, and of how many examples it is."""
    of = f"{found.total:,} examples"
    if found.is_decided and found.examples < found.total:
        of += f", stopped at {found.examples:,}"
    elif found.is_cut:
        of = f"{found.examples:,} of {of}"
    failed = f", {found.failed:,} failed" if found.failed else ""
    return f"{interval(found.metric)} of {of}{failed}"


def model_text(result: SweepResult, each: ModelResult) -> str:
    """Describe what a model came to."""
    if each.skipped:
        return f"skipped: {each.skipped}"
    if each.accuracy is not None:
        return accuracy_text(each.accuracy)
    return "interrupted" if result.sweep.data is not None else "no accuracy, since the file has no [data]"


def misfits(result: SweepResult, number: int) -> list[str]:
    """Return why a model, by its number, does not fit: each reason with the boards that it is of."""
    reasons: dict[str, dict[str, None]] = {}
    for cell in result.cells:
        if cell.model == number and cell.misfit:
            reasons.setdefault(cell.misfit, {})[cell.board] = None
    everywhere = len(result.sweep.boards)
    return [
        f"{'any board' if len(boards) == everywhere else ', '.join(boards)}: {reason}"
        for reason, boards in reasons.items()
    ]


def question(result: SweepResult) -> str:
    """Return what is wanted: 20 a second at 90 %."""
    want = result.sweep.want
    rate = "" if want.rate is None else f"{want.rate:,g} a second"
    accuracy = "" if want.accuracy is None else f"{100 * want.accuracy:g} %"
    return " at ".join(filter(None, (rate, accuracy)))


def answer(result: SweepResult) -> str:
    """Return the answer to what is wanted; empty where nothing is."""
    if not result.asks:
        return ""
    start = f"the smallest board that does {question(result)}"
    if result.smallest is not None:
        cell = result.cells[result.smallest]
        return f"{start}: {device_of(result, cell)} ({_does(result, cell)}){_with_model(result, cell)}"
    return f"{start}: none{_best(result)}"


def _with_model(result: SweepResult, cell: Cell) -> str:
    return f", with {result.models[cell.model].model.name}" if len(result.models) > 1 else ""


def _does(result: SweepResult, cell: Cell) -> str:
    rate = f"{spell_rate(cell.rate(sure=False))} a second"
    found = result.models[cell.model].accuracy
    if found is None:
        return f"{rate}, at least {spell_rate(cell.rate(sure=True))}"
    low = "" if found.metric.low is None else f", at least {100 * found.metric.low:.1f}"
    return f"{rate}, {percent(found.metric.value)}{low}"


def _best(result: SweepResult) -> str:
    """Say what the fastest and the most accurate come to."""
    parts = []
    fitting = [cell for cell in result.cells if cell.total is not None]
    if not fitting:
        return ": no model fits any board"
    fastest = max(fitting, key=result.rate)
    parts.append(
        f"the fastest is {device_of(result, fastest)}, {spell_rate(result.rate(fastest))} a second"
        f"{_with_model(result, fastest)}"
    )
    measured = _measured(result.models)
    if measured:
        value, metric, name = max(measured)
        low = "" if metric.low is None else f", at least {100 * metric.low:.1f}"
        parts.append(f"the most accurate is {name}, {percent(value)}{low}")
    return ": " + "; ".join(parts)


def _measured(models: Iterable[ModelResult]) -> list[tuple[float, Metric, str]]:
    return [
        (each.accuracy.metric.value, each.accuracy.metric, each.model.name)
        for each in models
        if each.accuracy is not None and each.accuracy.metric.value is not None
    ]
