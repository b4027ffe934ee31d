"""Markdown of what the tables hold."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_CODE_WITH_BAR: Final = re.compile(r"`([^`]*\|[^`]*)`")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(_cell(cell) for cell in line)} |".replace("|  |", "| |") for line in lines
    )


def plain(text: str) -> str:
    """Return text of a docstring as one line of Markdown; what Markdown would take for a tag is text."""
    return re.sub(r"<(?=\w)", "&lt;", " ".join(text.split()))


def code(text: object) -> str:
    """Return text as code."""
    return f"`{text}`"


def _cell(text: str) -> str:
    """Return text without what would end a cell: a bar is an entity, and code with a bar is HTML."""
    text = _CODE_WITH_BAR.sub(lambda found: f"<code>{escape(found[1], quote=False)}</code>", text)
    return text.replace("|", "&#124;").replace("\n", " ").strip()
