"""A report in one HTML file: tables, and charts as inline SVG. It loads nothing and runs no script.

The values of the report are collected here; the template `profile.html.j2` is the page.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.addons.predict.arena_drawing import picture, to_svg
from aisrv.addons.predict.profile import wording
from aisrv.addons.predict.profile.model_profile import CLOCKS_MHZ, ModelProfile, Prediction
from aisrv.addons.predict.template import render
from aisrv.inference.timings import Basis, Total, spell
from aisrv.model import ModelFileError
from aisrv.model.arena_plan import plan_arena

MAX_BARS: Final = 100
"""Bars of one chart, and operators of one picture; the tables have all operators."""

_ARENA_HEIGHT: Final = 320
_NODE: Final = 34
_NODE_HEIGHT: Final = 24
_NODE_LEFT: Final = 120
_NODE_MIDDLE: Final = 280


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column, which is aligned to the right if it is of numbers."""

    heading: str
    is_numeric: bool = False


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table of text."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart; the part of it that rests on estimates, 0 to 1, has another color."""

    name: str
    ms: float
    estimate_share: float
    text: str
    """Text with the time and its band."""


@dataclass(frozen=True, slots=True)
class HtmlComparison:
    """Several profiles beside each other."""

    bars: Sequence[Bar]
    table: HtmlTable
    differences: Sequence[HtmlTable]
    """Differences of each profile to the first, by operator class."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator in the drawing of a model."""

    top: int
    name: str
    note: str
    share: float
    """Share of the time of an inference, 0 to 1."""


@dataclass(frozen=True, slots=True)
class NetworkDrawing:
    """A model from top to bottom, in the order of execution."""

    height: int
    nodes: Sequence[Node]
    edges: Sequence[tuple[str, str]]
    """Paths of SVG from producer to consumer, each with its arrowhead."""


@dataclass(frozen=True, slots=True)
class Section:
    """Section of one profile."""

    profile: ModelProfile
    fits: bool
    verdict: str
    """Whether the model fits, and where."""
    rates: str
    """Inferences a second by threads."""
    threads: Sequence[Bar]
    """Time of an inference by threads, with inferences a second."""
    clock_mhz: int
    """Core clock of `threads`."""
    arena: str
    """Plan of the arena as SVG; empty for a model that has none, or is too large for a picture."""
    network: NetworkDrawing | None
    """Operators and their tensors; None for a model that is too large for a picture."""
    classes: HtmlTable
    bars: Sequence[Bar]
    """Slowest operators, in the order of execution."""
    operators: HtmlTable
    memory: HtmlTable
    predictions: HtmlTable


def to_html(profiles: Sequence[ModelProfile]) -> str:
    return render(
        "aisrv.addons.predict",
        "profile.html.j2",
        names=", ".join(dict.fromkeys(profile.name for profile in profiles)),
        wording=wording,
        comparison=_comparison(profiles) if len(profiles) > 1 else None,
        sections=[_section(profile) for profile in profiles],
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _columns(names: Sequence[str], numbers: Iterable[str] = ()) -> list[Column]:
    """Return columns by their headings; those also in `numbers` are numeric."""
    numeric = set(numbers)
    return [Column(name, name in numeric) for name in names]


def _comparison(profiles: Sequence[ModelProfile]) -> HtmlComparison:
    numbers = ("ms", "to the first", "ms from flash", "arena bytes")
    rows = [
        (
            wording.title(each),
            wording.describe(each.configuration),
            wording.with_band(each.total, each),
            wording.difference(each, profiles[0]),
            wording.with_band(each.flash_total, each),
            f"{each.memory.head + each.memory.tail:,}",
            *("fits" if placement.fits else "does not fit" for placement in each.memory.placements),
        )
        for each in profiles
    ]
    return HtmlComparison(
        [Bar(wording.title(each), each.total.ms, each.estimate_share, str(each.total)) for each in profiles],
        HtmlTable(
            "Models and configurations",
            _columns(("", "device", *numbers, "in the arena", "external"), numbers),
            rows,
        ),
        [_differences(profiles[0], each) for each in profiles[1:]],
    )


def _differences(first: ModelProfile, other: ModelProfile) -> HtmlTable:
    """Compare two profiles by operator class, in ms, and by their use of memory."""
    before, after = _class_totals(first), _class_totals(other)
    nothing = Total(0, 0, 0)
    pairs = {name: (before.get(name, nothing), after.get(name, nothing)) for name in {**before, **after}}
    names = sorted(pairs, key=lambda name: (-abs(pairs[name][1].ms - pairs[name][0].ms), name))
    rows = [_time_difference(name, *pairs[name]) for name in names]
    rows.append(_time_difference("one inference", first.total, other.total))
    arenas = [each.memory.head + each.memory.tail for each in (first, other)]
    rows.append(_difference("arena, bytes", arenas[0], arenas[1], _count))
    rows.append(_difference("model file, bytes", first.memory.model, other.memory.model, _count))
    headings = (wording.title(first), wording.title(other), "difference", "in %")
    caption = f"{wording.title(other)} against {wording.title(first)}, times in ms"
    return HtmlTable(caption, [Column(""), *(Column(each, True) for each in headings)], rows)


def _class_totals(profile: ModelProfile) -> dict[str, Total]:
    return {each.name: profile.total.scaled(each.ticks, each.low, each.high) for each in profile.classes}


def _time_difference(name: str, before: Total, after: Total) -> tuple[str, ...]:
    name, first, second, *rest = _difference(name, before.ms, after.ms, _ms)
    return name, first + _band(before), second + _band(after), *rest


def _difference(name: str, before: float, after: float, text: Callable[[float], str]) -> tuple[str, ...]:
    sign = "+" if after > before else "\N{MINUS SIGN}" if after < before else "\N{PLUS-MINUS SIGN}"
    share = f"{sign}{100 * abs(after - before) / before:.1f} %" if before else "new"
    return name, text(before), text(after), f"{sign}{text(abs(after - before))}", share


def _ms(number: float) -> str:
    return f"{number:.3f}"


def _band(total: Total) -> str:
    return f" ({total.in_ms(total.low):.3f} to {total.in_ms(total.high):.3f})"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _section(profile: ModelProfile) -> Section:
    slowest = sorted(profile.times, key=lambda time: -time.ticks)[:MAX_BARS]
    fits, verdict = wording.fit(profile)
    clock = profile.configuration.device.core_mhz
    clock = int(clock) if clock in CLOCKS_MHZ else CLOCKS_MHZ[0]
    predictions = [each for each in profile.predictions if each.clock_mhz == clock and each.ram.ticks]
    rates = ", ".join(f"{_rate(each.ram)} with {each.threads}" for each in predictions)
    return Section(
        profile,
        fits,
        verdict,
        rates,
        [_thread_bar(each) for each in profile.predictions if each.clock_mhz == clock],
        clock,
        _arena(profile),
        _network_drawing(profile),
        _classes(profile),
        [
            Bar(
                f"{time.index} {time.name}",
                profile.total.in_ms(time.ticks),
                float(time.basis is Basis.ESTIMATE),
                f"{wording.milliseconds(time, profile)} ms ({wording.band(time, profile)})",
            )
            for time in sorted(slowest, key=lambda time: time.index)
        ],
        _operators(profile),
        _memory(profile),
        _predictions(profile),
    )


def _thread_bar(each: Prediction) -> Bar:
    name = "1 thread" if each.threads == 1 else f"{each.threads} threads"
    share = each.estimate_ticks / each.ram.ticks if each.ram.ticks else 0.0
    rate = f", {_rate(each.ram)} a second" if each.ram.ticks else ""
    return Bar(name, each.ram.ms, share, f"{each.ram}{rate}")


def _rate(total: Total) -> str:
    low, high = (1000 / total.in_ms(each) if each else 0.0 for each in (total.high, total.low))
    rate = 1000 / total.ms
    return f"{spell(rate)} ({spell(low, rate)} to {spell(high, rate)})"


def _arena(profile: ModelProfile) -> str:
    model = profile.model
    if model is None or len(model.operators) > MAX_BARS:
        return ""
    try:
        plan = plan_arena(model)
    except ModelFileError:
        return ""
    return to_svg(picture(model, plan, height=_ARENA_HEIGHT)) if plan.allocations else ""


def _network_drawing(profile: ModelProfile) -> NetworkDrawing | None:
    """Draw the operators below each other; lines past a neighbor bend to the side."""
    model, total = profile.model, profile.ticks
    if model is None or len(profile.times) > MAX_BARS or len(profile.times) != len(model.operators):
        return None
    producers = {
        tensor: place for place, operator in enumerate(model.operators) for tensor in operator.outputs
    }
    edges = [
        _edge(producers[tensor], place)
        for place, operator in enumerate(model.operators)
        for tensor in operator.inputs
        if producers.get(tensor, place) < place
    ]
    nodes = [
        Node(
            _NODE * place,
            f"{time.index} {time.name}",
            f"{wording.with_band(time, profile)} ms, {_percent(time.ticks / total if total else 0)}",
            time.ticks / total if total else 0.0,
        )
        for place, time in enumerate(profile.times)
    ]
    return NetworkDrawing(_NODE * len(nodes), nodes, list(dict.fromkeys(edges)))


def _edge(producer: int, consumer: int) -> tuple[str, str]:
    start, end = _NODE * producer + _NODE_HEIGHT, _NODE * consumer
    if consumer == producer + 1:
        return f"M{_NODE_MIDDLE} {start}V{end}", f"M{_NODE_MIDDLE - 4} {end - 6}h8l-4 6z"
    bend = max(_NODE_LEFT - 14 * (consumer - producer), 4)
    start, end = start - _NODE_HEIGHT // 2, end + _NODE_HEIGHT // 2
    path = f"M{_NODE_LEFT} {start}C{bend} {start} {bend} {end} {_NODE_LEFT} {end}"
    return path, f"M{_NODE_LEFT - 7} {end - 4}v8l7 -4z"


def _classes(profile: ModelProfile) -> HtmlTable:
    numbers = ("count", "ticks", "ms", "share")
    rows = [
        (
            each.name,
            f"{each.count}",
            f"{each.ticks:,}",
            wording.with_band(each, profile),
            _percent(each.share),
            "with estimates" if each.has_estimates else "",
        )
        for each in profile.classes
    ]
    return HtmlTable("By operator class", _columns(("operator", *numbers, "basis"), numbers), rows)


def _operators(profile: ModelProfile) -> HtmlTable:
    numbers = ("ticks", "ms", "share")
    total = profile.ticks
    rows = [
        (
            f"{time.index}",
            time.name,
            f"{time.ticks:,}",
            wording.with_band(time, profile),
            _percent(time.ticks / total) if total else "",
            time.form,
            time.memory.value,
            time.basis.value,
            time.source,
        )
        for time in profile.times
    ]
    headings = ("#", "operator", *numbers, "form", "memory", "basis", "source")
    return HtmlTable("All operators", _columns(headings, ("#", *numbers)), rows)


def _memory(profile: ModelProfile) -> HtmlTable:
    memory = profile.memory
    rows = [
        ("model file", f"{memory.model:,} bytes"),
        ("arena, tensors", f"{memory.head:,} bytes"),
        ("arena, interpreter", f"about {memory.tail:,} bytes"),
        ("parameters", f"{profile.parameters:,} bytes"),
    ]
    rows += [
        (f"model in {placement.memory.value}", wording.placement(placement))
        for placement in memory.placements
    ]
    return HtmlTable("Memory", _columns(("", "")), rows)


def _predictions(profile: ModelProfile) -> HtmlTable:
    cells = {(each.threads, each.clock_mhz): each for each in profile.predictions}
    memories = [f"{clock} MHz, {memory}" for clock in CLOCKS_MHZ for memory in ("memory", "flash")]
    rows = [
        (
            str(threads),
            *(
                wording.with_band(total, profile)
                for clock in CLOCKS_MHZ
                for total in (cells[threads, clock].ram, cells[threads, clock].flash)
            ),
        )
        for threads in sorted({each.threads for each in profile.predictions})
    ]
    headings = ("threads", *memories)
    return HtmlTable("Predicted ms of one inference", _columns(headings, headings), rows)
