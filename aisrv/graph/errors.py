"""What is wrong with the text, the manifests or the words of a graph, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ERRORS = 20
"""How many errors a run of the compiler reports."""


class GraphError(Exception):
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
        return f"{self.place}: {self.kind}: {self.text}"


class TextError(GraphError):
    """The errors of a text or a manifest, in the order in which they were found."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__("\n".join(map(str, messages)))
        self.messages = tuple(messages)
