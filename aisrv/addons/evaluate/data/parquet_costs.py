"""What the pages of a table in Parquet take once unpacked, known before any is."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from aisrv.addons.evaluate.data.parquet_layout import (
    BY_DICTIONARY,
    DELTAS,
    DICTIONARY,
    Column,
    Layout,
    pages,
)

MOST_PAGES: Final = 20_000
"""Pages of the columns that are read; their headers are looked through first, in some microseconds each."""
LARGEST_HELD: Final = 224 << 20
"""Bytes of the pages of all columns that are unpacked at a time."""


class Cost(NamedTuple):
    """What the pages of a column take."""

    held: int = 0
    """Bytes of those that are unpacked at a time."""
    value: float = 8
    """Bytes of a value that stands in a page, on average."""
    longest: int = 0
    """Bytes of a value that stands elsewhere: in a dictionary, or in what came before it."""
    is_delta: bool = False
    """Whether values have only what differs, which pyarrow cannot read into a dictionary."""

    def __or__(self, other: "Cost") -> "Cost":
        return Cost(
            max(self.held, other.held),
            max(self.value, other.value),
            max(self.longest, other.longest),
            self.is_delta or other.is_delta,
        )

    @property
    def row(self) -> float:
        """Bytes of a row while a batch is read, on average."""
        return max(self.value, self.longest) if self.is_delta else self.value


def costs_of(layout: Layout, data: memoryview, leaves: Sequence[str]) -> list[Cost]:
    """Look through the pages of columns, by their paths; ValueError where they take too much, IndexError."""
    costs = [Cost() for _ in leaves]
    left, held = MOST_PAGES, 0
    for group in layout.groups:
        together = 0
        for number, leaf in enumerate(leaves):
            for column in group:
                if column.path == leaf:
                    cost, count = _cost_of(column, data, left)
                    left -= count
                    together += cost.held
                    costs[number] |= cost
        held = max(held, together)
    if held > LARGEST_HELD:
        raise ValueError(f"its pages take {held:,} bytes, at most {LARGEST_HELD:,}: write smaller ones")
    return costs


def _cost_of(column: Column, data: memoryview, most: int) -> tuple[Cost, int]:
    """Return what a column of a group takes, and how many pages it has; ValueError, IndexError."""
    cost = Cost()
    dictionary = count = 0
    for page in pages(data, column):
        count += 1
        if count > most:
            raise ValueError(f"it has more than {MOST_PAGES:,} pages: write larger ones")
        is_delta = page.encoding in DELTAS
        held = page.packed + 2 * page.unpacked
        if page.kind == DICTIONARY:
            dictionary = max(dictionary, page.unpacked)
            cost |= Cost(held, longest=dictionary)
        elif page.encoding in BY_DICTIONARY:
            cost |= Cost(held)
        else:
            average = page.unpacked / max(1, page.values)
            cost |= Cost(held, average, page.unpacked if is_delta else 0, is_delta)
    return cost._replace(held=cost.held + dictionary), count
