"""The switch: finds the channel end that a resource id names, and lets parked verbs run on.

A verb is a generator of steps that yields where it lacks tokens or room. When tokens arrive, or room is
made, the switch steps the verb that waits for them, in the task that caused it: a core sleeps until its
whole verb is done, not until the next token. That is what makes compound verbs cost one wake-up each.
"""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisrv.xcore.route import RoutedEnd
    from aisrv.xcore.verb import SteppedResource


class Switch:
    """All channel ends of a node by resource id."""

    def __init__(self) -> None:
        self._ends: dict[int, RoutedEnd] = {}
        self._due: deque[SteppedResource] = deque()
        self._stepping = False

    def register(self, end: "RoutedEnd") -> None:
        """Make an end reachable."""
        self._ends[end.resource_id] = end

    def remove(self, end: "RoutedEnd") -> None:
        """Take an end off: tokens sent to it are dropped from now on."""
        del self._ends[end.resource_id]

    def find(self, resource_id: int) -> "RoutedEnd | None":
        """Return the allocated end with that id."""
        return self._ends.get(resource_id)

    def step(self, end: "SteppedResource") -> None:
        """Step the verb in progress on `end`, and every verb that this lets go on."""
        due = self._due
        if self._stepping:
            due.append(end)
            return
        self._stepping = True
        try:
            end.advance()
            while due:
                due.popleft().advance()
        finally:
            self._stepping = False
