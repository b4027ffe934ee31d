"""The strings below the members of a class."""

from dataclasses import dataclass
from enum import Enum

from docs.generate.member_docs import member_docs


@dataclass(frozen=True, slots=True)
class Base:
    first: int = 0
    """The first."""
    second: int = 0
    """Two
    lines."""


@dataclass(frozen=True, slots=True)
class Derived(Base):
    second: int = 1
    """Another second."""
    third: int = 2


class Color(Enum):
    RED = 1
    """As blood."""
    GREEN = 2


def test_strings_of_fields_and_of_a_base() -> None:
    assert member_docs(Derived) == {"first": "The first.", "second": "Another second."}


def test_lines_are_without_their_indentation() -> None:
    assert member_docs(Base)["second"] == "Two\nlines."


def test_members_of_an_enum() -> None:
    assert member_docs(Color) == {"RED": "As blood."}
