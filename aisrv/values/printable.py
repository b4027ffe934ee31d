"""Text from elsewhere made safe to show: on a terminal, in a log, in SVG and HTML.

Texts of models, devices and interpreters may have control characters, which move a terminal's cursor, and
which no XML file may have.
"""

from __future__ import annotations

import os
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def printable(text: str, limit: int | None = None) -> str:
    """Return a text without control characters, and not longer than `limit` characters."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else REPLACEMENT for each in text)
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"


def printable_lines(text: str) -> str:
    """Return a text of several lines without other control characters than newlines and tabs."""
    if not text.isprintable():
        text = text.replace("\r\n", "\n")
        text = "".join(each if each.isprintable() or each in "\n\t" else REPLACEMENT for each in text)
    return text


def readable_name(name: str) -> str:
    """Return a file's name as text that can be encoded: a byte of no UTF-8 becomes `\\xff`, as it may be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode(errors="backslashreplace")
    return name


class PrintableError(Exception):
    """Base of errors about what comes from elsewhere: their texts have no control characters."""

    def __str__(self) -> str:
        return printable_lines(super().__str__())
