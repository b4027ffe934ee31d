"""What the tests of the substrate share: virtual time, verbs in tasks of their own, traces of tokens."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

import trio
import trio.testing

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.tokens import Run
from aisrv.xcore.trace import TracedEnd, Tracer

P = ParamSpec("P")
E = TypeVar("E", bound=Exception)

FOREVER = 3600  # seconds of virtual time: a test that hangs gets there at once, and fails


def simulated(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test on virtual time; one that hangs fails with TooSlowError."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            with trio.fail_after(FOREVER):
                await test(*args, **kwargs)

        trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


settle = trio.testing.wait_all_tasks_blocked
"""Let every task go as far as it can."""


class Started:
    """A verb in a task of its own."""

    def __init__(self, tasks: trio.Nursery, verb: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.done = False
        """Whether the verb has returned or trapped."""
        self._result: Any = None
        self._error: Exception | None = None
        self.scope = trio.CancelScope()

        async def run() -> None:
            with self.scope:
                try:
                    self._result = await verb(*args)
                except Exception as error:  # not Cancelled, which the scope takes
                    self._error = error
                self.done = True

        tasks.start_soon(run, name=getattr(verb, "__name__", "verb"))

    def value(self) -> Any:
        """What the verb returned; raises what it raised."""
        assert self.done, "the verb is still parked"
        if self._error is not None:
            raise self._error
        return self._result

    async def cancel(self) -> None:
        """Cancel the verb, which must be parked."""
        assert not self.done
        self.scope.cancel()
        await settle()
        assert self.scope.cancelled_caught


class Bench(NamedTuple):
    """A node with one channel from tile 0 to tile 1 and a nursery for verbs."""

    node: Node
    a: ChanEnd
    b: ChanEnd
    tasks: trio.Nursery

    def start(self, verb: Callable[..., Awaitable[Any]], *args: Any) -> Started:
        """Start a verb in a task of its own."""
        return Started(self.tasks, verb, *args)

    def end(self, destination: ChanEnd | None = None) -> ChanEnd:
        """Allocate one more end on tile 0."""
        end = self.node.tiles[0].allocate_chanend()
        if destination is not None:
            end.setd(destination)
        return end


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """Open a node with one channel; verbs still parked at the end are cancelled."""
    async with open_node(seed=1) as node, trio.open_nursery() as tasks:
        yield Bench(node, *node.channel(node.tiles[0], node.tiles[1]), tasks)
        tasks.cancel_scope.cancel()


class Token(NamedTuple):
    """One token: a data byte or a control token."""

    value: int
    control: bool = False


def tokens(*runs: Run) -> list[Token]:
    """Single tokens of runs."""
    return [
        token
        for run in runs
        for token in ([Token(run, control=True)] if isinstance(run, int) else map(Token, run))
    ]


class TokenTrace(Tracer):
    """Records who sent which tokens, adjacent data joined, as (label, run)."""

    def __init__(self, **labels: ChanEnd) -> None:
        self.sent: list[tuple[str, Run]] = []
        self._labels: dict[TracedEnd, str] = {end: label for label, end in labels.items()}

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        label = self._labels[end]
        if isinstance(run, bytes) and self.sent and self.sent[-1][0] == label:
            before = self.sent[-1][1]
            if isinstance(before, bytes):
                self.sent[-1] = (label, before + run)
                return
        self.sent.append((label, run))


class EndTrace(Tracer):
    """Records what is told of each channel end, by its name, in order."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[tuple[Any, ...]]] = {}

    def _add(self, end: TracedEnd, *what: Any) -> None:
        self.hooks.setdefault(end.name, []).append(what)

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        self._add(end, "output", run)

    def input(self, end: TracedEnd, run: Run, tick: int) -> None:
        self._add(end, "input", run)

    def route_opened(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        self._add(source, "opened", destination.name)

    def route_closed(self, source: TracedEnd, destination: TracedEnd, tick: int) -> None:
        self._add(source, "closed", destination.name)


async def send_singly(end: ChanEnd, stream: Iterable[Token]) -> None:
    """Output tokens one verb each."""
    for token in stream:
        await (end.outct(token.value) if token.control else end.outuchar(token.value))


async def receive_singly(end: ChanEnd, count: int) -> list[Token]:
    """Input tokens of either kind, one verb each."""
    received = []
    for _ in range(count):
        control = await end.testct()
        received.append(Token(await (end.inct() if control else end.inuchar()), control))
    return received


async def drain(end: ChanEnd) -> list[Token]:
    """Input all tokens that wait."""
    received = []
    while end.ready:
        received += await receive_singly(end, 1)
    return received


def sole_error(group: BaseException, kind: type[E]) -> E:
    """Return the only exception within nested groups."""
    while isinstance(group, BaseExceptionGroup):
        assert len(group.exceptions) == 1, group.exceptions
        group = group.exceptions[0]
    if not isinstance(group, kind):
        raise group
    return group
