"""The 100 MHz reference clock: a tick is 10 ns of Trio's clock, live or virtual."""

from typing import Final

import trio

TICKS_PER_SECOND: Final = 100_000_000
_ROUNDING: Final = 0.05  # ticks: well above a float's error on a clock of some days, well below one tick


class Clock:
    """The reference clock of a node: whole ticks since the node started."""

    def __init__(self) -> None:
        self._origin = trio.current_time()

    def ticks(self) -> int:
        """Ticks since the node started; does not wrap."""
        return int((trio.current_time() - self._origin) * TICKS_PER_SECOND + _ROUNDING)

    def deadline(self, ticks: int) -> float:
        """Trio's time at which that tick begins: converted from the whole count, so that nothing drifts."""
        return self._origin + ticks / TICKS_PER_SECOND
