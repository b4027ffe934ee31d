"""What the command shows: tables with bars, and pairs of name and value.

Everything is for people and goes through rich, which is imported at first use. Programs read `--json`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from host_tools.tensors.timings import REFERENCE_MHZ

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from host_tools.tensors.outputs import Score
    from host_tools.tensors.timings import Timings

BAR_WIDTH: Final = 32
_BESIDE_BANDS: Final = 12
"""Columns of a bar that leave room for bands in a terminal of 80."""
_PLAIN_WIDTH: Final = 120


def show_pairs(pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        print(f"{name:<{width}}  {value}")


def show_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table of text; columns whose first cell is a number are aligned to the right.

    The cells of the first column are never broken: an address can be copied whole.
    """
    table = _table()
    for heading, cell in zip(headings, rows[0] if rows else headings, strict=True):
        _add_column(table, heading, right=isinstance(cell, int | float), whole=not table.columns)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    _console().print(table)


def show_scores(scores: "Sequence[Score]") -> None:
    """Print the best elements of an output, each with a bar."""
    table = _table()
    for heading, right in (("index", True), ("label", False), ("value", True), ("", False)):
        if heading != "label" or any(score.label for score in scores):
            _add_column(table, heading, right=right)
    low = min(0.0, *(score.value for score in scores)) if scores else 0.0
    span = max((score.value for score in scores), default=0.0) - low
    for score in scores:
        label = [score.label] if any(one.label for one in scores) else []
        table.add_row(str(score.index), *label, f"{score.value:.6g}", _bar(score.value - low, span))
    _console().print(table)


def show_timings(timings: "Timings") -> None:
    """Print the time of each operator with its band, its share and a bar, then the total."""
    total = timings.total
    longest = max(timings, default=0)
    table = _table(footer=True)
    wanted = {"operator": bool(timings.names), "between": timings.band is not None}
    width = BAR_WIDTH if timings.band is None else _BESIDE_BANDS
    for heading, footer, right in (
        ("#", "", True),
        ("operator", "total", False),
        ("ticks", str(total), True),
        ("µs", f"{timings.microseconds:.2f}", True),
        ("between", _between(timings.microseconds_band), True),
        ("%", "", True),
        ("", "", False),
    ):
        if wanted.get(heading, True):
            _add_column(table, heading, right=right, footer=footer)
    for index, each in enumerate(timings.operators):
        name = [each.name] if timings.names else []
        band = [_between(each.microseconds_band)] if timings.band is not None else []
        share = f"{100 * each.ticks / total:.1f}" if total else ""
        cells = str(index), *name, str(each.ticks), f"{each.microseconds:.2f}", *band, share
        table.add_row(*cells, _bar(each.ticks, longest, width))
    _console().print(table)
    if timings.reference_mhz != REFERENCE_MHZ:
        print(f"A tick is 1/{timings.reference_mhz:g} µs.")
    if timings.band is None and total:
        print("The device says no bands: hardware measures its times.")


def _between(band: tuple[float, float] | None) -> str:
    return "" if band is None else f"{band[0]:.2f} to {band[1]:.2f}"


def hex_dump(data: bytes) -> str:
    """Return bytes as text: sixteen a line, each line with the offset of its first."""
    return "\n".join(f"{start:08x}  {data[start : start + 16].hex(' ')}" for start in range(0, len(data), 16))


def _console() -> "Console":
    from rich.console import Console

    # A pipe has no width: leave room, so that no name is cut.
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


def _bar(value: float, longest: float, width: int = BAR_WIDTH) -> "RenderableType":
    from rich.bar import Bar

    return Bar(longest, 0, value, width=width) if longest > 0 else ""


def _table(*, footer: bool = False) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, show_footer=footer, show_edge=False, pad_edge=False)


def _add_column(table: "Table", heading: str, *, right: bool, footer: str = "", whole: bool = False) -> None:
    justify: Literal["left", "right"] = "right" if right else "left"
    table.add_column(heading, footer, justify=justify, overflow="fold", no_wrap=whole)
