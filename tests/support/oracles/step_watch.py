"""Watches the steps of a loop's tasks for what is theirs alone: bytes allocated, and time on a CPU."""

import mmap
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pytest
import trio

MIB: Final = 1 << 20


class Step(NamedTuple):
    """A step of a task: from where it is woken to where it waits again."""

    amount: float
    """Bytes that it had in use at once beyond those at its start, or seconds."""
    task: str

    def __str__(self) -> str:
        return f"{self.amount:,.6g} by {self.task}"


class StepWatch(trio.abc.Instrument):
    """Keeps the largest step of a run; how its amount is measured is the subclass's."""

    def __init__(self) -> None:
        self.largest = Step(0, "no task")
        """The largest step."""
        self._start = 0.0

    def forget(self) -> None:
        """Let nothing of what was so far count."""
        self.largest = Step(0, "no task")

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Keep a step where it is the largest."""
        amount = self.amount()
        if amount > self.largest.amount:
            self.largest = Step(amount, task.name)

    def amount(self) -> float:
        """What the step in progress has come to."""
        raise NotImplementedError


class AllocationWatch(StepWatch):
    """Counts bytes that Python allocates: what copies something large into new memory shows here.

    Neither the machine nor its load have a part in it. Tracing must be on: `tracemalloc.start`.
    """

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Begin a step."""
        tracemalloc.reset_peak()
        self._start, _ = tracemalloc.get_traced_memory()

    def amount(self) -> float:
        """See `StepWatch`."""
        return tracemalloc.get_traced_memory()[1] - self._start


class TimeWatch(StepWatch):
    """Measures seconds of this thread on a CPU: neither other processes nor other threads count."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Begin a step."""
        self._start = time.thread_time()

    def amount(self) -> float:
        """See `StepWatch`."""
        return time.thread_time() - self._start


class CallWatch(StepWatch):
    """Counts the calls of some functions in a step: neither the machine nor its load have a part in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *functions: tuple[Any, str]) -> None:
        """Count calls of methods, or functions of a module, for as long as `monkeypatch` has them."""
        super().__init__()
        self.count = 0
        for owner, name in functions:
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return function(*arguments, **named)

        return counted

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Begin a step."""
        self._start = self.count

    def amount(self) -> float:
        """See `StepWatch`."""
        return self.count - self._start

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the steps of the block, in the run of its task."""
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)


def copying_seconds(size: int) -> float:
    """Seconds on a CPU of a copy of `size` bytes into new pages, the slowest of three, here and now.

    Memory that a program has given back and gets again is far quicker.
    """

    def once() -> float:
        start = time.thread_time()
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            pages.write(source)
            return time.thread_time() - start

    source = bytes(size)
    return max(once() for _ in range(3))
