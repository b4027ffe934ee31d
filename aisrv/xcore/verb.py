"""Verbs: what a core does at a channel end, written once, to be awaited or to be a step of a larger verb.

A verb is a generator. It yields where it needs tokens or room that are not there, and returns its result.
`@verb` makes a function of it whose value a task awaits, and a larger verb on the same end takes as a step:

    @verb
    def exchange(c: ChanEnd, request: bytes, size: int) -> Steps[bytes]:
        yield from chan_out_buf_byte(c, request)
        return (yield from chan_in_buf_byte(c, size))

    answer = await exchange(c, b"how", 64)
"""

import functools
from collections.abc import Callable, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")

Steps = Generator[None, None, T]
"""A verb in progress: yields where it must wait for tokens or room, returns the verb's result."""


class Performer(Protocol):
    """What carries verbs out: a channel end, or something that owns one."""

    def carry_out(self, verb: str, steps: Steps[T]) -> Generator[Any, Any, T]:
        """Carry out a verb for the running task, which sleeps until all of its steps are done."""


C = TypeVar("C", bound=Performer)


class Verb(Generic[T_co]):
    """A verb with its arguments, not begun yet: await it once, or `yield from` it once."""

    __slots__ = ("_name", "_performer", "_steps")

    def __init__(self, performer: Performer, name: str, steps: Steps[T_co]) -> None:
        """Name a verb as traces and deadlock reports will."""
        self._performer = performer
        self._name = name
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Carry it out: the task sleeps until all of it is done."""
        return self._performer.carry_out(self._name, self._steps)

    def __iter__(self) -> Steps[T_co]:
        """Be a step of a larger verb."""
        return self._steps


def verb(steps: Callable[Concatenate[C, P], Steps[T]]) -> Callable[Concatenate[C, P], Verb[T]]:
    """Make a verb of a generator function whose first argument is the channel end, or what owns it."""
    name = steps.__name__

    def begin(performer: C, /, *args: P.args, **kwargs: P.kwargs) -> Verb[T]:
        return Verb(performer, name, steps(performer, *args, **kwargs))

    functools.update_wrapper(begin, steps)
    return begin
