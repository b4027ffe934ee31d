"""A report in one HTML file: tables, and charts as inline SVG. It loads nothing and runs no script."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from aisrv.analysis.profile import wording
from aisrv.analysis.profile.model_profile import CLOCKS_MHZ, ModelProfile, milliseconds
from aisrv.inference.timings import Basis

MAX_BARS: Final = 100
"""Bars of one chart; the table below it has all operators."""

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1d2733; }
h1, h2, h3 { line-height: 1.2; } h2 { border-bottom: 1px solid #c8d0d9; margin-top: 2.5rem; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; } caption { text-align: left; font-weight: 600; }
th, td { border-bottom: 1px solid #dde3ea; padding: 0.2rem 0.7rem; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; margin: 0.5rem 0 1.5rem; max-width: 100%; } .fitted { fill: #2f6db3; } .estimate { fill: #d98a2b; }
.note { color: #55616e; }
@media (prefers-color-scheme: dark) {
  body { background: #14191f; color: #dbe2ea; } th, td { border-color: #333d48; } svg text { fill: #dbe2ea; }
  .note { color: #9aa7b4; } }
""".strip()  # noqa: E501 - a style sheet

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_ROW: Final = 20
_LABEL: Final = 260
_BAR: Final = 480
_WIDTH: Final = 860


def to_html(profiles: Sequence[ModelProfile]) -> str:
    """Give the whole file."""
    names = ", ".join(dict.fromkeys(profile.name for profile in profiles))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>Profile of {escape(names)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Profile of {escape(names)}</h1>",
        f'<p class="note">{escape(wording.ORIGIN)} Bars of estimates are orange.</p>',
    ]
    if len(profiles) > 1:
        parts += _comparison(profiles)
    for profile in profiles:
        parts += _section(profile)
    return "\n".join([*parts, "</body></html>", ""])


def _comparison(profiles: Sequence[ModelProfile]) -> Iterable[str]:
    first = profiles[0].ticks
    yield "<h2>Comparison</h2>"
    yield _bars([(wording.title(each), each.ticks, each.estimate_share > 0) for each in profiles])
    yield _table(
        "Models and configurations",
        (
            "",
            "device",
            "ms#",
            "to the first#",
            "ms from flash#",
            "estimates#",
            "arena bytes#",
            "in the arena",
            "external",
        ),
        (
            (
                wording.title(each),
                wording.describe(each.configuration),
                f"{milliseconds(each.ticks):.3f}",
                wording.difference(each.ticks, first),
                f"{milliseconds(each.flash_ticks):.3f}",
                f"{100 * each.estimate_share:.1f} %",
                f"{each.memory.head + each.memory.tail:,}",
                *("fits" if placement.fits else "does not fit" for placement in each.memory.placements),
            )
            for each in profiles
        ),
    )


def _section(profile: ModelProfile) -> Iterable[str]:
    total = profile.ticks
    yield f"<h2>{escape(wording.title(profile))}</h2>"
    yield f"<p>{escape(wording.describe(profile.configuration))}. One inference takes "
    yield f"<strong>{milliseconds(total):.3f} ms</strong> ({total:,} ticks), "
    yield f"{100 * profile.estimate_share:.1f} % of it estimates.</p>"
    if profile.host is not None:
        yield f'<p class="note">This host takes {1000 * profile.host.median:.3f} ms (median of '
        yield f"{profile.host.runs} runs), which {escape(wording.HOST)}.</p>"
    yield _table(
        "By operator class",
        ("operator", "count#", "ticks#", "ms#", "share#", "basis"),
        (
            (
                each.name,
                f"{each.count}",
                f"{each.ticks:,}",
                f"{milliseconds(each.ticks):.3f}",
                f"{100 * each.share:.1f} %",
                "with estimates" if each.has_estimates else "fitted",
            )
            for each in profile.classes
        ),
    )
    chosen = sorted(
        sorted(profile.times, key=lambda time: -time.ticks)[:MAX_BARS], key=lambda time: time.index
    )
    yield "<h3>Operators</h3>"
    yield _bars([(f"{time.index} {time.name}", time.ticks, time.basis is Basis.ESTIMATE) for time in chosen])
    if len(chosen) < len(profile.times):
        yield f'<p class="note">The {MAX_BARS} slowest of {len(profile.times):,} operators.</p>'
    yield _table(
        "All operators",
        ("#", "operator", "ticks#", "ms#", "share#", "basis", "source"),
        (
            (
                f"{time.index}",
                time.name,
                f"{time.ticks:,}",
                f"{milliseconds(time.ticks):.3f}",
                f"{100 * time.ticks / total:.1f} %" if total else "",
                time.basis.value,
                time.source,
            )
            for time in profile.times
        ),
    )
    yield from _memory(profile)
    yield from _predictions(profile)


def _memory(profile: ModelProfile) -> Iterable[str]:
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
    yield _table("Memory", ("", ""), rows)


def _predictions(profile: ModelProfile) -> Iterable[str]:
    cells = {(each.threads, each.clock_mhz): each for each in profile.predictions}
    threads = sorted({each.threads for each in profile.predictions})
    headings = ["threads#"]
    for clock in CLOCKS_MHZ:
        headings += [f"{clock} MHz, RAM#", f"{clock} MHz, flash#"]
    yield _table(
        "Predicted ms of one inference",
        headings,
        (
            (
                str(count),
                *(
                    f"{milliseconds(ticks):.3f}"
                    for clock in CLOCKS_MHZ
                    for ticks in (cells[count, clock].ram_ticks, cells[count, clock].flash_ticks)
                ),
            )
            for count in threads
        ),
    )
    yield f'<p class="note">{escape(wording.FLASH)}</p>'


def _table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table; a heading that ends in # is of numbers."""
    numeric = [' class="n"' if heading.endswith("#") else "" for heading in headings]
    head = "".join(
        f"<th{kind}>{escape(heading.removesuffix('#') or ('#' if heading else ''))}</th>"
        for heading, kind in zip(headings, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, numeric, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table>"
    )


def _bars(bars: Sequence[tuple[str, int, bool]]) -> str:
    """Draw a bar for each name and ticks, in the color of estimates or not."""
    longest = max((ticks for _, ticks, _ in bars), default=0) or 1
    height = _ROW * len(bars)
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" font-size="13"'
    lines = [f'<svg role="img" aria-label="Bar chart of times" {size}>']
    for number, (name, ticks, is_estimate) in enumerate(bars):
        top = _ROW * number
        width = _BAR * ticks / longest
        kind = "estimate" if is_estimate else "fitted"
        shown = name if len(name) <= 34 else f"{name[:33]}…"
        lines += [
            f'<text x="{_LABEL - 8}" y="{top + 14}" text-anchor="end">{escape(shown)}</text>',
            f'<rect class="{kind}" x="{_LABEL}" y="{top + 3}" width="{width:.1f}" height="{_ROW - 6}"/>',
            f'<text x="{_LABEL + width + 6:.1f}" y="{top + 14}">{milliseconds(ticks):.3f} ms</text>',
        ]
    return "\n".join([*lines, "</svg>"])
