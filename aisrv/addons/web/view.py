"""What the page's server asks of the devices that it shows and works on, wherever they are.

The members of the objects are those of docs/guides/web.md. No value in them is None; names are
cut to `LONGEST`, lines to `LONGEST_LINE`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

LONGEST: Final = 80
"""Characters of a name."""
LONGEST_LINE: Final = 512
"""Characters of a line, such as why a core trapped."""
MOST_OPERATORS: Final = 64
"""Operators whose times are shown."""

Json: TypeAlias = dict[str, Any]
Values: TypeAlias = Mapping[str, str]
"""The fields of a request's query."""


def cut(text: str, longest: int = LONGEST) -> str:
    """Cut a text, by default a name, to a number of characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


class View(Protocol):
    """Looks at a device while it is open. Its methods return at once."""

    @property
    def name(self) -> str:
        """Name of the device, such as 1-1."""

    def open(self) -> None:
        """Begin to look: a first page shows the device."""

    def close(self) -> None:
        """Look no longer: the last page is gone."""

    def board(self) -> Json:
        """Return what does not change."""

    def state(self, now: float) -> Json:
        """Return what may have changed; the same object again where nothing has."""

    def summary(self) -> Json:
        """Return the few words that the grid shows."""

    def pictures(self) -> dict[tuple[int, int], bytes]:
        """Return the messages of the latest pictures, by kind and engine."""

    def lines_before(self) -> Iterable[tuple[str, str]]:
        """Return the device's log from before the page was opened: names and lines."""


class Control(Protocol):
    """Something that the page may do."""

    @property
    def most(self) -> int:
        """Most bytes of a request's body."""


_Control = TypeVar("_Control", bound=Control)


class Controls(Protocol[_Control]):
    """What the page may do, by name."""

    @property
    def by_name(self) -> Mapping[str, _Control]:
        """The controls by the names of their requests."""

    async def do(self, control: _Control, values: Values, body: bytes) -> str | bytes:
        """Do what a control is for; return what to say, or a file. Raises Refused with the reason."""
