"""Pages with tables in them: which they are, and how a table gets to its place."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from aisrv.addons.captures.wireshark import DISSECTOR

DOCS: Final = Path(__file__).parents[1]
PAGES: Final = (*sorted(DOCS.rglob("*.md")), DISSECTOR)
"""All pages of the manual, most of which have no table of this kind, and the dissector."""

_PLACE: Final = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?((?:-- )?<!-- end of table -->)", re.DOTALL)


class PageError(ValueError):
    """A page that asks for a table that there is not, or marks a place by half."""


def table_names(text: str) -> list[str]:
    """Return the names of the tables that the text of a page has, in their order."""
    return [place[2] for place in _PLACE.finditer(text)]


def filled(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with all its tables as `tables` makes them. Raises PageError."""
    if text.count("<!-- table: ") != len(table_names(text)):
        raise PageError("a table has no end; write <!-- end of table --> after it")

    def fill(place: re.Match[str]) -> str:
        if place[2] not in tables:
            raise PageError(f"there is no table {place[2]!r}; there are {', '.join(tables)}")
        return f"{place[1]}\n{tables[place[2]]().strip()}\n\n{place[3]}"

    return _PLACE.sub(fill, text)
