"""The errors and warnings of one run: each with its place, and with the name that was probably meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from aisrv.graph.errors import MOST_ERRORS, Message, Place, TextError

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_NAME = 60


class Messages:
    """Collects messages. The error after which no more are reported ends the run."""

    def __init__(self) -> None:
        self.errors: list[Message] = []
        self.warnings: list[Message] = []

    def error(self, place: Place, text: str) -> None:
        """Note an error; TextError with all of them once there are as many as a run reports."""
        self.errors.append(Message(place, text))
        if len(self.errors) >= MOST_ERRORS:
            self.check()

    def warn(self, place: Place, text: str) -> None:
        """Note a warning; of a great many, the first are kept."""
        if len(self.warnings) < 50 * MOST_ERRORS:
            self.warnings.append(Message(place, text, "warning"))

    def check(self) -> None:
        """TextError where there are errors."""
        if self.errors:
            raise TextError(self.errors)


def shown(word: str) -> str:
    """A word of a text, cut where it is very long."""
    return repr(word if len(word) <= _LONGEST_NAME else word[:_LONGEST_NAME] + "…")


def nearest(word: str, names: Iterable[str]) -> str:
    """A question for the end of a message: the name nearest to a word, or nothing."""
    found = difflib.get_close_matches(word[:_LONGEST_NAME], list(names), n=1)
    return f"; did you mean {found[0]}?" if found else ""
