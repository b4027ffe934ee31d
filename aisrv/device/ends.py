"""The channel ends of a task, by the names that the plan of the board gives them."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Final

from aisrv.xcore.channels.chanend import ChanEnd


class Ends:
    """A task's channel ends by name; several of one name are in the order of the plan's links."""

    def __init__(self) -> None:
        self._ends: Final[defaultdict[str, list[ChanEnd]]] = defaultdict(list)

    def add(self, name: str, end: ChanEnd) -> None:
        """Add an end after those that have the name already."""
        self._ends[name].append(end)

    def __iter__(self) -> Iterator[ChanEnd]:
        """All ends, name by name."""
        return chain.from_iterable(self._ends.values())

    def all(self, name: str) -> tuple[ChanEnd, ...]:
        """Return the ends of a name, of which there may be none."""
        return tuple(self._ends.get(name, ()))

    def one(self, name: str) -> ChanEnd:
        """Return the only end of a name."""
        (end,) = self._ends[name]
        return end

    def by_name(self) -> dict[str, ChanEnd]:
        """Return the ends by name, where no two have the same."""
        return {name: self.one(name) for name in self._ends}

    def one_or_none(self, name: str) -> ChanEnd | None:
        """Return the only end of a name; None where the board does not join it to anything."""
        return self.one(name) if name in self._ends else None
