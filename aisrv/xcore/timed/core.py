"""Cores in device time: each has a clock of its own."""

from aisrv.xcore.clock import Poll
from aisrv.xcore.core import Core


class _NoPoll(Poll):
    """Polling loops of a core whose default cases take time by themselves."""

    __slots__ = ()

    def step(self, now: int) -> int:  # noqa: ARG002 - as in Poll
        """Return that virtual time need not pass by itself."""
        return 0


class TimedCore(Core):
    """A core with its clock."""

    __slots__ = ("above", "clock", "settles", "waits", "waits_since")

    def __init__(self, tile: int, number: int, name: str, below: Core | None = None) -> None:
        super().__init__(tile, number, name, below)
        self.clock = 0
        """Clocks since its node started; mostly ahead of Trio's time."""
        self.waits = False
        """Whether it does not run, as it waits to be woken."""
        self.waits_since: int | None = None
        """The clock from which on it has waited, to its turn; who wakes it may set a later one for that."""
        self.settles = False
        """Whether it waits for its tick after each verb, as an interrupt may come then."""
        self.above: TimedCore | None = None
        """The callback that runs on it; it does not, whether it waits or not."""
        self._poll = _NoPoll()
