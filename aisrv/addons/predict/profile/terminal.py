"""Profiles in the terminal: tables with bars."""

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aisrv.addons.predict.profile import wording
from aisrv.addons.predict.profile.model_profile import CLOCKS_MHZ, ModelProfile
from aisrv.inference.timings import Basis

_WIDE: Final = 130
"""Columns of a terminal with room for the source of each figure, and for long bars."""
_LONG_BAR: Final = 24
_SHORT_BAR: Final = 6
_NAME: Final = 10
"""Least width of a name, in columns."""


def show(console: Console, profiles: Sequence[ModelProfile]) -> None:
    """Show one profile with all details, or several beside each other."""
    if len(profiles) == 1:
        _show_one(console, profiles[0])
    else:
        _show_comparison(console, profiles)
    console.print(Text(wording.ORIGIN, style="dim"))


def _show_one(console: Console, profile: ModelProfile) -> None:
    fits, verdict = wording.fit(profile)
    console.print(Text(wording.duration(profile), style="bold"))
    console.print(Text(wording.foundation(profile)))
    _show_verdict(console, f"{wording.title(profile)}: {verdict[0].lower()}{verdict[1:]}", fits=fits)
    console.print(Text(wording.describe(profile.configuration)))
    for note in profile.notes:
        console.print(Text(f"Note: {note}.", style="yellow"))
    bar = _bar_width(console)
    console.print(_operators(profile, bar, with_source=console.width >= _WIDE))
    console.print(_classes(profile, bar))
    console.print(_memory(profile))
    console.print(_predictions(profile, "ram", "Predicted ms of one inference, parameters in memory"))
    console.print(_predictions(profile, "flash", "The same, parameters from flash"))
    console.print(Text(wording.FLASH, style="dim"))
    _show_host(console, profile)


def _show_comparison(console: Console, profiles: Sequence[ModelProfile]) -> None:
    fits, verdict = wording.comparison(profiles)
    _show_verdict(console, verdict, fits=fits)
    longest = max(profile.total.ms for profile in profiles)
    for device in dict.fromkeys(wording.describe(profile.configuration) for profile in profiles):
        console.print(Text(device))
    has_names = any(profile.configuration.name for profile in profiles)
    headings = ["on"] if has_names else []
    bar = _LONG_BAR if console.width >= _WIDE else _SHORT_BAR // 2
    table = _table("", "model", *headings, "ms", "#to 1st", "", "from flash", "#arena", "fits", bar=bar)
    for profile in profiles:
        _add_row(
            table,
            profile.name,
            *([profile.configuration.name] if has_names else []),
            wording.short(profile.total),
            wording.difference(profile, profiles[0]),
            _bar(profile.total.ms, longest, bar, is_estimate=False),
            wording.short(profile.flash_total),
            f"{profile.memory.head + profile.memory.tail:,}",
            wording.fits_in(profile.memory),
        )
    console.print(table)
    for profile in profiles:
        _show_host(console, profile)


def _show_verdict(console: Console, text: str, *, fits: bool) -> None:
    console.print(Text(text, style="bold green" if fits else "bold red"))


def _show_host(console: Console, profile: ModelProfile) -> None:
    host = profile.host
    if host is not None:
        took = f"{profile.name} on this host: {1000 * host.median:.3f} ms, median of {host.runs} runs, "
        console.print(Text(f"{took}which {wording.HOST}.", style="dim"))
        if host.kernels is not None:
            console.print(Text(f"On --engine kernels, {host.kernels}.", style="dim"))


def _bar_width(console: Console) -> int:
    return _LONG_BAR if console.width >= _WIDE else _SHORT_BAR


def _operators(profile: ModelProfile, bar: int, *, with_source: bool) -> Table:
    total = profile.ticks
    longest = max((time.ticks for time in profile.times), default=0)
    source = ["source"] if with_source else []
    table = _table("Operators", "#", "operator", "#ticks", "#ms", "band", "#%", "", "basis", *source, bar=bar)
    for time in profile.times:
        is_estimate = time.basis is Basis.ESTIMATE
        _add_row(
            table,
            str(time.index),
            time.name,
            f"{time.ticks:,}",
            wording.milliseconds(time, profile),
            wording.band(time, profile),
            f"{100 * time.ticks / total:.1f}" if total else "",
            _bar(time.ticks, longest, bar, is_estimate=is_estimate),
            time.basis.value,
            *([time.source] if with_source else []),
        )
    return table


def _classes(profile: ModelProfile, bar: int) -> Table:
    longest = max((each.ticks for each in profile.classes), default=0)
    table = _table("By operator class", "operator", "#count", "#ticks", "#ms", "band", "#%", "", bar=bar)
    for each in profile.classes:
        _add_row(
            table,
            each.name,
            str(each.count),
            f"{each.ticks:,}",
            wording.milliseconds(each, profile),
            wording.band(each, profile),
            f"{100 * each.share:.1f}",
            _bar(each.ticks, longest, bar, is_estimate=each.has_estimates),
        )
    return table


def _memory(profile: ModelProfile) -> Table:
    memory = profile.memory
    table = _table("Memory", "", "")
    _add_row(table, "model file", f"{memory.model:,} bytes")
    _add_row(table, "arena, tensors", f"{memory.head:,} bytes")
    _add_row(table, "arena, interpreter", f"about {memory.tail:,} bytes")
    _add_row(table, "parameters", f"{profile.parameters:,} bytes")
    for placement in memory.placements:
        _add_row(table, f"model in {placement.memory.value}", wording.placement(placement))
    return table


def _predictions(profile: ModelProfile, source: str, title: str) -> Table:
    headings = [f"#{clock} MHz" for clock in CLOCKS_MHZ]
    table = _table(title, "#threads", *headings)
    cells = {(each.threads, each.clock_mhz): getattr(each, source) for each in profile.predictions}
    for threads in sorted({each.threads for each in profile.predictions}):
        row = [cells[threads, clock] for clock in CLOCKS_MHZ]
        _add_row(table, str(threads), *map(wording.short, row))
    return table


def _table(title: str, *headings: str, bar: int = 0) -> Table:
    """Create a table; headings with # are of numbers, those without a text of bars of width `bar`."""
    table = Table(
        title=title or None,
        title_justify="left",
        show_header=any(headings),
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in headings:
        is_number = heading.startswith("#")
        is_bar = bar > 0 and not heading
        table.add_column(
            heading[1:] if is_number and len(heading) > 1 else heading,
            justify="right" if is_number else "left",
            # A bar that was cut would lie.
            min_width=bar if is_bar else _NAME if heading in ("model", "on") else None,
            overflow="fold" if heading in ("model", "on") else "ellipsis",
            no_wrap=is_number or is_bar or heading in ("basis", "band", "fits"),
        )
    return table


def _add_row(table: Table, *cells: str | Text) -> None:
    # Names come from files: as Text they are not markup.
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def _bar(ticks: float, longest: float, width: int, *, is_estimate: bool) -> Text:
    length = round(width * ticks / longest) if longest else 0
    return Text("█" * length, style="yellow" if is_estimate else "blue")
