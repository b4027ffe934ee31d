"""Variants of a kind of engine: what stands behind the name and a colon, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self


class Package(NamedTuple):
    """A package by the module that is imported, by its own name, and by the extra that brings it."""

    module: str
    name: str
    extra: str


@dataclass(frozen=True, slots=True)
class Variant:
    """The options of a kind. Here those of kinds without any; add-ons derive from it.

    The fields of a derived class are the arguments of the kind's interpreter, None where they are not given.
    """

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text behind the colon. Raises EngineKindError."""
        _ = text
        return cls()

    def __str__(self) -> str:
        """Return the text that reads back, without the colon; empty where nothing is given."""
        return ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The options that are given, by name."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}

    @property
    def is_shipped(self) -> bool:
        """Return whether it comes with this package, if its kind does."""
        return True

    @property
    def runs_in_place(self) -> bool:
        """Return whether it runs stored models in place."""
        return False

    @property
    def written_folder(self) -> Path | None:
        """Folder that it writes into as models run."""
        return None

    @property
    def packages(self) -> tuple[Package, ...]:
        """Packages of which it needs one, the first to be named; none where it needs none."""
        return ()

    def refusal(self) -> str:
        """Say why there is no such variant here, packages apart; empty where it can be tried."""
        return ""

    def implementation(self) -> str | None:
        """Name what runs it, if that depends on the machine. Raises EngineKindError where nothing does."""
        return None

    def on_threads(self, count: int) -> Self | None:
        """Return it on threads of the host; None where it cannot be told."""
        _ = count
        return None

    def writing(self, folder: Path) -> Self | None:
        """Return it as one that writes every tensor of each run into a folder; None where it cannot."""
        _ = folder
        return None

    @classmethod
    def names(cls) -> Mapping[str, str]:
        """Return the texts of the variants to choose from, each with the package that it comes from."""
        return {}
