"""Markdown of what the tables hold."""

import re
from collections.abc import Iterable, Sequence


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
    return text.replace("|", "\\|").replace("\n", " ").strip()
