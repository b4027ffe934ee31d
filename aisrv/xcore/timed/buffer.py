"""The buffer of a channel end in device time: each run has the clock of its sender."""

from aisrv.xcore.channels.tokenbuffer import TokenBuffer
from aisrv.xcore.tokens import Run


class TimedTokenBuffer(TokenBuffer):
    """A queue of runs with their clocks."""

    __slots__ = ("_clocks", "push_clock", "taken_clock")

    def __init__(self) -> None:
        super().__init__()
        self._clocks: list[int] = []
        self.push_clock = 0
        """The clock of the run that is pushed next."""
        self.taken_clock = 0
        """The clock of the run of which was taken last."""

    @property
    def first_clock(self) -> int | None:
        """The clock of the first run; None where there is none."""
        return self._clocks[0] if self._clocks else None

    def clock_of(self, count: int) -> int:
        """Return the clock at which the first `count` tokens are there."""
        place = -self._offset
        clock = 0
        for run, sent in zip(self._runs, self._clocks, strict=True):
            clock = max(clock, sent)
            place += 1 if isinstance(run, int) else len(run)
            if place >= count:
                break
        return clock

    def push(self, run: Run) -> None:
        """Queue a run with `push_clock`."""
        super().push(run)
        self._clocks.append(self.push_clock)

    def take_control(self) -> int | None:
        """Take the first token where that is a control token."""
        token = super().take_control()
        self._took()
        return token

    def take_data(self, limit: int) -> bytes:
        """Take up to `limit` data tokens that came in one run."""
        data = super().take_data(limit)
        self._took()
        return data

    def take_run(self, count: int) -> bytes:
        """Take the first run where it has just `count` data tokens."""
        data = super().take_run(count)
        self._took()
        return data

    def withdraw_past(self, limit: int) -> None:
        """Drop the last tokens past the first `limit`, with their clocks."""
        super().withdraw_past(limit)
        del self._clocks[len(self._runs) :]

    def _took(self) -> None:
        self.taken_clock = self._clocks[0]
        if len(self._runs) < len(self._clocks):
            self._clocks.pop(0)
