"""A table for terminals of any width: one that is too wide loses its least important columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its heading."""

    name: str
    right: bool = False
    """Whether it is aligned to the right, as numbers are."""
    least: int = 0
    """Least width in characters, so that columns behind it stay in place."""
    cut_to: int | None = None
    """Least width in characters to which cells may be cut; None for cells that are never cut."""
    rank: int = 0
    """Order of columns to be left out: the highest goes first; 0 is never left out."""


class FittingTable:
    """A table of one line a row. Cells that are strings are shown as they are, not as markup."""

    def __init__(self, *columns: Column) -> None:
        self._columns: Final = columns
        self._rows: list[tuple[tuple[Text, ...], str]] = []

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        row = tuple(Text(cell) if isinstance(cell, str) else cell for cell in cells)
        self._rows.append((row, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        places, widths = self._fit(options.max_width)
        cut: OverflowMethod = "crop" if options.ascii_only else "ellipsis"  # which is not an ASCII character
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="cyan")
        for place in places:
            column = self._columns[place]
            table.add_column(
                column.name,
                justify="right" if column.right else "left",
                width=widths[place],
                no_wrap=True,
                overflow=cut,
            )
        for row, style in self._rows:
            table.add_row(*(row[place] for place in places), style=style)
        yield table

    def _fit(self, room: int) -> tuple[Sequence[int], list[int]]:
        """Return the indices of the columns that are shown, and the widths of all."""
        columns = self._columns
        widths = [
            max(cell_len(column.name), column.least, *(row[place].cell_len for row, _ in self._rows), 0)
            for place, column in enumerate(columns)
        ]
        least = [
            width if column.cut_to is None else min(width, max(column.cut_to, cell_len(column.name)))
            for column, width in zip(columns, widths, strict=True)
        ]
        shown = list(range(len(columns)))
        for place in sorted(shown, key=lambda place: columns[place].rank, reverse=True):
            if columns[place].rank and _total(least, shown) > room:
                shown.remove(place)
        for place in reversed(shown):
            excess = max(0, _total(widths, shown) - room)
            widths[place] = max(least[place], widths[place] - excess)
        return shown, widths


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[place] for place in shown) + GAP * (len(shown) - 1)
