"""Watches the turns of the event loop: while one lasts, no device of the process answers its host."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

REPORTED_SECONDS: Final = 0.020
"""Shortest turn of the loop that is reported."""


class LongTurn(NamedTuple):
    """A long turn of the loop, and the step of a task that took most of it; times in seconds."""

    seconds: float
    task: str
    task_seconds: float

    def __str__(self) -> str:
        return (
            f"the event loop was held for {1000 * self.seconds:.0f} ms, "
            f"for {1000 * self.task_seconds:.0f} ms of it by {self.task}"
        )


class LoopWatch(trio.abc.Instrument):
    """Reports turns of the loop that last longer than a limit; one for each run of a loop."""

    def __init__(
        self,
        report: Callable[[LongTurn], object],
        seconds: float = REPORTED_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create one; with `time.thread_time` as its clock other processes and threads do not count."""
        self._report = report
        self._seconds = seconds
        self._clock = clock
        self._turn: float | None = None  # when it began
        self._step = 0.0
        self._longest = "no task"
        self._longest_seconds = 0.0

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - the interface is Trio's
        self._turn = self._clock()
        self._longest, self._longest_seconds = "no task", 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002
        self._step = self._clock()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        seconds = self._clock() - self._step
        if seconds > self._longest_seconds:
            self._longest, self._longest_seconds = task.name, seconds

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        if self._turn is None:  # the run begins with half a turn
            return
        seconds = self._clock() - self._turn
        if seconds > self._seconds:
            self._report(LongTurn(seconds, self._longest, self._longest_seconds))
