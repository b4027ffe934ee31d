"""Listeners: what a select leaves at each of its resources, and the calls that it answers or takes there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from aisrv.xcore.trace import TracedEnd, Tracer

if TYPE_CHECKING:
    from aisrv.xcore.runtime import Runtime


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


class Caller(Protocol):
    """The channel end of a client, whose verb goes on when its call is answered."""

    @property
    def runtime(self) -> "Runtime":
        """The runtime of its node, shared with the other resources."""


class HandedCall:
    """A call that a core takes whole as it wakes, and answers when it has carried it out: no tokens cross."""

    __slots__ = ("_caller", "answer", "call")

    def __init__(self, call: Call, caller: Caller) -> None:
        self.call: Final = call
        self.answer: Answer | None = None
        """None until the core has given it."""
        self._caller = caller

    def give(self, answer: Answer) -> None:
        """Answer it, so that the client goes on."""
        self.answer = answer
        self._caller.runtime.switch.step(self._caller)


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
        """Return whether its core waits for other resources, too."""

    @property
    def takes_calls(self) -> bool:
        """Return whether its core waits, and takes calls that are handed over."""

    def fire(self, resource: object) -> None:
        """Called when the resource becomes ready."""

    def answer(self, call: Call) -> Answer | None:
        """Answer in the task that calls; see `Selection`. None where the core has to."""
