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

    __slots__ = ("clock",)

    def __init__(self, tile: int, number: int, name: str) -> None:
        super().__init__(tile, number, name)
        self.clock = 0
        """Clocks since its node started; mostly ahead of Trio's time."""
        self._poll = _NoPoll()
