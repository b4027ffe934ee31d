"""Frames at a rate of device time: whole ticks of 10 ns of Trio's clock, live or virtual."""

import enum
from collections.abc import Callable
from fractions import Fraction
from typing import Final, Protocol, runtime_checkable

import trio

from aisrv.sensors.image.frame import Encoding, FrameSource, RawFrame, SourceError
from aisrv.xcore.clock import TICKS_PER_SECOND, Clock

FASTEST: Final = 1_000_000
"""Frames a second at most."""


class LatePolicy(enum.Enum):
    """Treatment of a frame whose time has passed before it is asked for."""

    DROP = "drop"
    """Drop it, as a free-running sensor does: the caller waits for the next."""
    KEEP = "keep"
    """Deliver it at once, as are all late frames: none is lost."""


@runtime_checkable
class SkippableSource(Protocol):
    """A source that can skip frames without making them."""

    def skip(self, count: int) -> None:
        """Skip the next `count` frames."""


class FrameClock(Protocol):
    """Time since the first frame was asked for, in ticks of 10 ns."""

    def ticks(self) -> int:
        """Return the ticks that have passed."""

    async def wait_until(self, tick: int) -> None:
        """Wait for a tick."""


class TrioFrameClock(FrameClock):
    """Trio's clock."""

    def __init__(self) -> None:
        self._clock = Clock()

    def ticks(self) -> int:
        return self._clock.ticks()

    async def wait_until(self, tick: int) -> None:
        await trio.sleep_until(self._clock.deadline(tick))


class PacedSource:
    """A source whose frame k has its time k/rate after the first was asked for, rounded down to a tick.

    Times are computed from k, so nothing drifts. With `LatePolicy.DROP`, a source that can `skip` (patterns,
    files) loses the frames that were dropped; from others (callbacks, cameras), which show what is there now,
    just the next is taken.
    """

    def __init__(
        self,
        source: FrameSource,
        rate: Fraction | int,
        late: LatePolicy = LatePolicy.DROP,
        start_clock: Callable[[], FrameClock] = TrioFrameClock,
    ) -> None:
        """Pace a source by a clock that `start_clock` starts with the first frame."""
        self._source = source
        self._start_clock = start_clock
        self._late = late
        self._rate = Fraction(rate)
        if not 0 < self._rate <= FASTEST:
            raise SourceError(f"a rate of {rate} frames a second: it is above 0, and {FASTEST} at most")
        self._clock: FrameClock | None = None
        self._next = 0
        self.dropped = 0
        """Frames whose time passed before anybody asked for them."""

    @property
    def width(self) -> int:
        return self._source.width

    @property
    def height(self) -> int:
        return self._source.height

    @property
    def encoding(self) -> Encoding:
        return self._source.encoding

    def by(self, start_clock: Callable[[], FrameClock]) -> "PacedSource":
        """Return the same source and rate by another clock."""
        return PacedSource(self._source, self._rate, self._late, start_clock)

    def due(self, number: int) -> int:
        """Return the time of a frame in ticks since the first one's."""
        return number * TICKS_PER_SECOND * self._rate.denominator // self._rate.numerator

    async def frame(self) -> RawFrame:
        """Wait for the time of the next frame and take it. Raises SourceError."""
        if self._clock is None:
            self._clock = self._start_clock()
        number = self._next
        if self._late is LatePolicy.DROP:
            number = max(number, self._first_from(self._clock.ticks()))
        await self._clock.wait_until(self.due(number))
        dropped, self._next = number - self._next, number + 1
        self.dropped += dropped
        if dropped and isinstance(self._source, SkippableSource):
            self._source.skip(dropped)
        return await self._source.frame()

    def _first_from(self, tick: int) -> int:
        number = tick * self._rate.numerator // (TICKS_PER_SECOND * self._rate.denominator)
        while self.due(number) < tick:  # once or twice
            number += 1
        return number
