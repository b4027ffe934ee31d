"""Errors of the text, the manifests or the words of a graph, with their place and a suggestion."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.values.printable import PrintableError, printable

_LONGEST_NAME: Final = 60
MOST_ERRORS: Final = 20
"""Number of errors that a run of the compiler reports."""


class GraphError(PrintableError):
    """A graph that cannot be read, compiled or run."""


class WordsError(GraphError):
    """Words that are not a graph; `index` is that of the first bad word."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(f"word {index}: {message}")
        self.index = index


class FieldError(GraphError):
    """A value that does not fit the bits of its field."""

    def __init__(self, field: str, value: int, most: int) -> None:
        super().__init__(f"{field} is {value}: its bit-field takes 0 to {most}")
        self.field = field


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Message:
    """One error or warning of the compiler."""

    place: Place
    text: str
    kind: str = "error"

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.kind}: {self.text}")


class TextError(GraphError):
    """The errors of a text or a manifest, in the order in which they were found."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__("\n".join(map(str, messages)))
        self.messages = tuple(messages)


class Messages:
    """Collects messages. The error after which no more are reported ends the run."""

    def __init__(self) -> None:
        self.errors: list[Message] = []
        self.warnings: list[Message] = []

    def error(self, place: Place, text: str) -> None:
        """Add an error. Raises TextError with all of them once there are `MOST_ERRORS`."""
        self.errors.append(Message(place, text))
        if len(self.errors) >= MOST_ERRORS:
            self.check()

    def warn(self, place: Place, text: str) -> None:
        """Add a warning; of a great many, the first are kept."""
        if len(self.warnings) < 50 * MOST_ERRORS:
            self.warnings.append(Message(place, text, "warning"))

    def check(self) -> None:
        """Raise TextError if there are errors."""
        if self.errors:
            raise TextError(self.errors)


def shown(word: str) -> str:
    """Shorten a word of a text if it is very long."""
    return repr(word if len(word) <= _LONGEST_NAME else word[:_LONGEST_NAME] + "…")


def nearest(word: str, names: Iterable[str]) -> str:
    """Return a question for the end of a message: the name nearest to a word, or nothing."""
    found = difflib.get_close_matches(word[:_LONGEST_NAME], list(names), n=1)
    return f"; did you mean {found[0]}?" if found else ""
