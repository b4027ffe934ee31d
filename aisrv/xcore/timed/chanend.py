"""Channel ends in device time: what is output is charged once for both sides, and carries the sender's clock.

No shortcuts: all tokens cross. Costs are in `device_costs`; rules in docs/guides/device-time.md.
"""

import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.listener import Answer, Call, CallReport
from aisrv.xcore.channels.routes import BUFFER_TOKENS, RoutedEnd
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.core import current_core
from aisrv.xcore.pool import Pool
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timed.buffer import TimedTokenBuffer
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.device_costs import (
    CONTROL_SLOTS,
    RESOURCE_SLOTS,
    ROUTE_CLOCKS,
    TOKEN_SLOTS,
    WORD_SLOTS,
    word_run_slots,
)
from aisrv.xcore.timed.parking import VerbParking
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.tokens import LAST_CONTROL, WORD_BYTES, Control, Run

if TYPE_CHECKING:
    from aisrv.xcore.timed.tile_links import Link
    from aisrv.xcore.timed.timeline import Timeline

T = TypeVar("T")
_END: Final = int(Control.END)
_SHORT: Final = (1, WORD_BYTES)


class Rates(NamedTuple):
    """Issue slots of both sides, as the tokens of a verb are charged."""

    control: int
    """A control token."""
    short: int
    """A byte, or a word."""


LONE: Final = Rates(TOKEN_SLOTS, TOKEN_SLOTS)
IN_RUN: Final = Rates(CONTROL_SLOTS, WORD_SLOTS)


class TimedEnd(ChanEnd):
    """A channel end whose verbs take time."""

    __slots__ = ("_link", "_links", "_outside", "_rates", "_timeline")
    _buffer: TimedTokenBuffer

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        assert isinstance(runtime, TimedRuntime)  # noqa: S101 - for the type checker
        super().__init__(runtime, tile, pool)
        self._buffer = TimedTokenBuffer()
        self._timeline: Timeline = runtime.timeline
        self._parking = VerbParking(runtime, runtime.timeline)
        self._links = runtime.links
        self._outside = 0
        """The clock of a task outside of any core that uses the end."""
        self._rates = LONE
        self._link: Link | None = None
        """The link that its route to the other tile has."""
        self._timeline.charge_slots(RESOURCE_SLOTS)

    # Clocks.

    @property
    def clock(self) -> int:
        """The clock of whoever uses the end."""
        user = self._user
        if isinstance(user, TimedCore):
            return user.clock
        return max(self._outside, self._timeline.clock_at(self._timeline.ticks))

    def advance(self, clock: int) -> None:
        """Let whoever uses the end be at a clock, unless it is later."""
        user = self._user
        if isinstance(user, TimedCore):
            user.clock = max(user.clock, clock)
        else:
            self._outside = max(self._outside, clock)

    @property
    def next_clock(self) -> int | None:
        """The clock at which the first run is there; None where none is on its way."""
        return self._buffer.first_clock

    @property
    def ready(self) -> bool:
        """Return whether a token is there at the clock of the core that asks."""
        return super().ready and self._buffer.clock_of(1) <= self._timeline.now()

    # Verbs, and what they wait for.

    @types.coroutine
    def run_verb(
        self, verb: str, steps: Steps[T], on_cancel: Callable[[], None] | None = None
    ) -> Generator[Any, Any, T]:
        """Run a verb, and wait for its tick where that is far ahead; outside of any core always.

        A core that may be interrupted waits before it and after it, as interrupts come between two.
        """
        core = current_core()
        if isinstance(core, TimedCore) and core.settles:
            yield from self._timeline.settle()
        result: T = yield from super().run_verb(verb, steps, on_cancel)
        if core is None:
            yield from self._timeline.settle_outside(self._outside)
        else:
            yield from self._timeline.settle_far()
        return result

    def hold(self, core: TimedCore) -> None:
        """Have the verb in progress, in which a core waits, not go on while a callback runs on that."""
        if self._steps is not None:
            self._steps = _after_callbacks(core, self._steps)

    async def call(self, call: Call, report: CallReport) -> Answer | None:  # noqa: ARG002 - as in ChanEnd
        """Return None: the words and the array cross."""
        return None

    def peer_at_rest(self) -> None:
        """Return None: there are no shortcuts."""

    def setd(self, destination: RoutedEnd | int) -> None:
        """Set the `destination` of outputs, which takes a slot."""
        super().setd(destination)
        self._timeline.charge_slots(RESOURCE_SLOTS)

    def output(self, run: Run) -> Steps[None]:
        """Send a run, and take its slots when its route is open."""
        if (isinstance(run, int) and 0 <= run <= LAST_CONTROL) or (not isinstance(run, int) and run):
            if self._route is None:
                yield from self._open_route()
            if isinstance(run, int):
                slots = self._rates.control
            else:
                slots = self._rates.short if len(run) in _SHORT else word_run_slots(len(run))
            target = self._route
            other = target.tile if isinstance(target, RoutedEnd) else self.tile
            self.advance(self.clock + slots * self._timeline.slot(self.tile, other))
        yield from super().output(run)

    def packet(self, data: bytes) -> Steps[None]:
        """Send data tokens and END at the rates of a run."""
        self._rates = IN_RUN
        try:
            yield from self.output(data)
            yield from self.output(_END)
        finally:
            self._rates = LONE

    def lone_packet(self, data: bytes) -> Steps[None]:
        """Send data tokens and END, each by itself."""
        yield from self.output(data)
        yield from self.output(_END)

    @verb
    def testct(self) -> Steps[bool]:
        """Wait for a token and say whether it is a control token; consumes nothing."""
        while not self._buffer.queued:
            yield
        self.advance(self._buffer.clock_of(1))
        return self._buffer.control is not None

    @verb
    def testwct(self) -> Steps[int]:
        """Wait for four tokens or a control token: its place among those four from 1, or 0 for data only."""
        buffer = self._buffer
        while not (place := buffer.control_within(WORD_BYTES)) and buffer.queued < WORD_BYTES:
            yield
        self.advance(buffer.clock_of(place or WORD_BYTES))
        return place

    # Routes and runs.

    def _open_route(self) -> Steps[None]:
        yield from super()._open_route()
        target = self._route
        if isinstance(target, RoutedEnd) and target.tile != self.tile:
            yield from self._take_link()
            self.advance(self.clock + ROUTE_CLOCKS)

    def _take_link(self) -> Steps[None]:
        passed = min(self.clock, self._timeline.clock_at(self._timeline.ticks - 1))
        waiting = self._links.waiting[self.tile]
        while (link := self._links.take(self.tile, self.clock, passed)) is None:
            waiting.append(self)
            while self in waiting:
                yield
        self._link = link
        self.advance(link.opened)

    def _close_route(self, target: RoutedEnd) -> None:
        if self._link is not None:
            self._link.closed = self.clock
            self._link = None
            waiting = self._links.waiting[self.tile]
            if waiting:
                self._switch.step(waiting.popleft())
        if target._claims and isinstance(claimant := target._claims[0], TimedEnd):
            claimant.advance(self.clock)
        super()._close_route(target)

    def _deliver(self, target: RoutedEnd, run: Run) -> None:
        assert isinstance(target, TimedEnd)  # noqa: S101 - for the type checker
        target._buffer.push_clock = self.clock
        super()._deliver(target, run)

    def _taken(self, run: Run, size: int) -> None:
        self.advance(self._buffer.taken_clock)
        source = self._source
        queued = self._buffer.queued
        if queued <= BUFFER_TOKENS < queued + size and isinstance(source, TimedEnd):
            source.advance(self.clock)
        super()._taken(run, size)

    def _withdraw(self) -> None:
        waiting = self._links.waiting[self.tile]
        if self in waiting:
            waiting.remove(self)
        super()._withdraw()


def _after_callbacks(core: TimedCore, steps: Steps[T]) -> Steps[T]:
    """Go on with steps when no callback runs on a core."""
    while core.above is not None:
        yield
    return (yield from steps)
