"""The links between two tiles: four routes at a time in each direction.

Cores are at clocks of their own, so routes are asked for out of the order of their times. Each is noted with
the clocks at which it opened and closed, as long as it may overlap another one.
"""

from collections import deque
from typing import Any, Final

ROUTES: Final = 4
"""Open routes between tiles, in one direction: they fill the links."""


class Link:
    """A route that is open between tiles, or was."""

    __slots__ = ("closed", "opened")

    def __init__(self, opened: int) -> None:
        self.opened: Final = opened
        """The clock at which it opened."""
        self.closed: int | None = None
        """The clock at which it closed; None while it is open."""

    def is_open_at(self, clock: int) -> bool:
        """Return whether it is open at a clock, as far as is known."""
        return self.opened <= clock and (self.closed is None or self.closed > clock)


class TileLinks:
    """The routes between the tiles of a node, by the tile at which they begin."""

    def __init__(self) -> None:
        self._links: tuple[list[Link], ...] = ([], [])
        self.waiting: Final[tuple[deque[Any], ...]] = (deque(), deque())
        """Waiting cores, in order of arrival."""

    def take(self, tile: int, clock: int, passed: int) -> Link | None:
        """Open a route from a tile at a clock, or the first after it at which fewer than four are open.

        None where all four are still open. All cores have passed the clock `passed`.
        """
        links = self._links[tile]
        links[:] = [link for link in links if link.closed is None or link.closed > passed]
        while len(around := [link for link in links if link.is_open_at(clock)]) >= ROUTES:
            closed = [link.closed for link in around if link.closed is not None]
            if not closed:
                return None
            clock = min(closed)
        link = Link(clock)
        links.append(link)
        return link
