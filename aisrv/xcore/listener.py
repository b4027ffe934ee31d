"""Listeners: what a select leaves at each of its resources, and the calls that it may answer there."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from aisrv.xcore.trace import TracedEnd, Tracer


class Call(NamedTuple):
    """A request to another core."""

    first: int
    second: int
    array: bytes | memoryview
    """What follows the two words, where anything does."""
    room: int
    """An answer's array must be shorter than this, in bytes."""


Answer = tuple[int, bytes]
"""A word, and an array."""

CallReport = Callable[[Tracer, TracedEnd, TracedEnd, Call, Answer], None]
"""Reports the tokens of a call between two ends and of its answer."""


class Listener(Protocol):
    """What a select leaves at each of its resources."""

    @property
    def user_name(self) -> str:
        """Name of the core that waits in the select, or of the task outside of any core."""

    @property
    def use(self) -> str:
        """What its core is in there, as traps give it: a select."""

    @property
    def has_others(self) -> bool:
        """Whether its core waits for other resources, too."""

    def fire(self, resource: object) -> None:
        """Called when the resource becomes ready."""

    def answer(self, call: Call) -> Answer | None:
        """Answer in the task that calls; see `Selection`. None where the core has to."""
