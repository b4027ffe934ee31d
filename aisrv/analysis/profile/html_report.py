"""A report in one HTML file: tables, and charts as inline SVG. It loads nothing and runs no script.

What is in the report is collected here; the template `profile.html.j2` is the page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.analysis.profile import wording
from aisrv.analysis.profile.model_profile import CLOCKS_MHZ, ModelProfile, milliseconds
from aisrv.analysis.template import render
from aisrv.inference.timings import Basis

MAX_BARS: Final = 100
"""Bars of one chart; the table below it has all operators."""


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column, which is aligned to the right where it is of numbers."""

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
    """A bar of a chart, in the color of estimates or not."""

    name: str
    ticks: int
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class HtmlComparison:
    """Several profiles beside each other."""

    bars: Sequence[Bar]
    table: HtmlTable


@dataclass(frozen=True, slots=True)
class Section:
    """What the report says of one profile."""

    profile: ModelProfile
    classes: HtmlTable
    bars: Sequence[Bar]
    """The slowest operators, in the order of execution."""
    operators: HtmlTable
    memory: HtmlTable
    predictions: HtmlTable


def to_html(profiles: Sequence[ModelProfile]) -> str:
    """Return the whole file."""
    return render(
        "profile.html.j2",
        names=", ".join(dict.fromkeys(profile.name for profile in profiles)),
        wording=wording,
        ms=_ms,
        comparison=_comparison(profiles) if len(profiles) > 1 else None,
        sections=[_section(profile) for profile in profiles],
    )


def _ms(ticks: int) -> str:
    return f"{milliseconds(ticks):.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _columns(names: Sequence[str], numbers: Iterable[str] = ()) -> list[Column]:
    """Return columns by their headings; those also in `numbers` are numeric."""
    numeric = set(numbers)
    return [Column(name, name in numeric) for name in names]


def _comparison(profiles: Sequence[ModelProfile]) -> HtmlComparison:
    first = profiles[0].ticks
    numbers = ("ms", "to the first", "ms from flash", "estimates", "arena bytes")
    rows = [
        (
            wording.title(each),
            wording.describe(each.configuration),
            _ms(each.ticks),
            wording.difference(each.ticks, first),
            _ms(each.flash_ticks),
            _percent(each.estimate_share),
            f"{each.memory.head + each.memory.tail:,}",
            *("fits" if placement.fits else "does not fit" for placement in each.memory.placements),
        )
        for each in profiles
    ]
    return HtmlComparison(
        [Bar(wording.title(each), each.ticks, each.estimate_share > 0) for each in profiles],
        HtmlTable(
            "Models and configurations",
            _columns(("", "device", *numbers, "in the arena", "external"), numbers),
            rows,
        ),
    )


def _section(profile: ModelProfile) -> Section:
    slowest = sorted(profile.times, key=lambda time: -time.ticks)[:MAX_BARS]
    return Section(
        profile,
        _classes(profile),
        [
            Bar(f"{time.index} {time.name}", time.ticks, time.basis is Basis.ESTIMATE)
            for time in sorted(slowest, key=lambda time: time.index)
        ],
        _operators(profile),
        _memory(profile),
        _predictions(profile),
    )


def _classes(profile: ModelProfile) -> HtmlTable:
    numbers = ("count", "ticks", "ms", "share")
    rows = [
        (
            each.name,
            f"{each.count}",
            f"{each.ticks:,}",
            _ms(each.ticks),
            _percent(each.share),
            "with estimates" if each.has_estimates else "fitted",
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
            _ms(time.ticks),
            _percent(time.ticks / total) if total else "",
            time.basis.value,
            time.source,
        )
        for time in profile.times
    ]
    headings = ("#", "operator", *numbers, "basis", "source")
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
    memories = [f"{clock} MHz, {memory}" for clock in CLOCKS_MHZ for memory in ("RAM", "flash")]
    rows = [
        (
            str(threads),
            *(
                _ms(ticks)
                for clock in CLOCKS_MHZ
                for ticks in (cells[threads, clock].ram_ticks, cells[threads, clock].flash_ticks)
            ),
        )
        for threads in sorted({each.threads for each in profile.predictions})
    ]
    headings = ("threads", *memories)
    return HtmlTable("Predicted ms of one inference", _columns(headings, headings), rows)
