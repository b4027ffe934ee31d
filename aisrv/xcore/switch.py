"""The switch: finds the channel end that a resource id names, and lets parked verbs run on.

A verb is a generator of steps that yields where it lacks tokens or room. When tokens arrive, or room is
made, the switch steps the verb that waits for them, in the task that caused it: a core sleeps until its
whole verb is done, not until the next token. That is what makes compound verbs cost one wake-up each.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class SwitchedEnd(Protocol):
    """A channel end, as the switch needs it."""

    @property
    def resource_id(self) -> int:
        """The id by which others reach it."""

    def resume(self) -> None:
        """Step the verb in progress, if any, as far as its tokens and room allow."""

    def forget_left(self) -> None:
        """Give up a verb that goes on by itself."""


E = TypeVar("E", bound=SwitchedEnd)


class Switch(Generic[E]):
    """All channel ends of a node by resource id."""

    def __init__(self) -> None:
        self._ends: dict[int, E] = {}
        self._due: deque[E] = deque()
        self._stepping = False

    def __iter__(self) -> Iterator[E]:
        """All ends that are allocated."""
        return iter(self._ends.values())

    def register(self, end: E) -> None:
        """Register an end by its resource id."""
        self._ends[end.resource_id] = end

    def remove(self, end: E) -> None:
        """Take an end off: tokens sent to it are dropped from now on."""
        del self._ends[end.resource_id]

    def clear(self) -> None:
        """Forget all ends, which know their switch: a node that has ended is not a cycle."""
        for end in self._ends.values():
            end.forget_left()
        self._ends.clear()

    def find(self, resource_id: int) -> E | None:
        """Return the allocated end with that id."""
        return self._ends.get(resource_id)

    def step(self, end: E) -> None:
        """Step the verb in progress on `end`, and every verb that this lets go on."""
        due = self._due
        if self._stepping:
            due.append(end)
            return
        self._stepping = True
        try:
            end.resume()
            while due:
                due.popleft().resume()
        finally:
            self._stepping = False
