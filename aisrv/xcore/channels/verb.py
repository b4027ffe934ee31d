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
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing import AwaitableGenerator

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")

Steps = Generator[None, None, T]
"""A verb in progress: yields where it must wait for tokens or room, returns the verb's result."""

Verb: TypeAlias = "AwaitableGenerator[Any, Any, T, Generator[Any, Any, T]]"
"""A verb with its arguments, not begun yet: await it once, or `yield from` it once."""


def verb(steps: Callable[Concatenate[C, P], Steps[T]]) -> "Callable[Concatenate[C, P], Verb[T]]":
    """Turn a generator function into a verb.

    Its first argument is the channel end, or what owns one and has its `is_stepping` and `run_verb`. `steps`
    is that function, whose name the verb has in traces and reports, without an underscore that begins it.
    """
    name = steps.__name__.removeprefix("_")

    def _begin(performer: Any, /, *args: Any) -> Any:  # noqa: ANN401 - C and P.args; a step is the generator itself
        begun = steps(performer, *args)  # type: ignore[call-arg]
        return begun if performer.is_stepping else performer.run_verb(name, begun)

    def _begin_named(performer: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - as above
        begun = steps(performer, *args, **kwargs)
        return begun if performer.is_stepping else performer.run_verb(name, begun)

    # Arguments by name cost more than the verb's own call, so only verbs that may leave some out take them.
    begin: Any = _begin_named if steps.__defaults__ else _begin
    return functools.update_wrapper(begin, steps)


def whole_verb(steps: Callable[Concatenate[C, P], Steps[T]]) -> "Callable[Concatenate[C, P], Verb[T]]":
    """Make a verb, as `verb` does, of steps that must come to their end, as the other side waits for that.

    If its task is cancelled they go on alone, and find `ChanEnd.is_left`; the next verb on the end waits.
    """
    name = steps.__name__.removeprefix("_")

    def begin(c: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - as above
        begun = steps(c, *args, **kwargs)
        return begun if c.is_stepping else c.run_whole_verb(name, begun)

    return functools.update_wrapper(begin, steps)
