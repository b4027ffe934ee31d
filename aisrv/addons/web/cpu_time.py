"""CPU time of chosen work of a task, whatever other tasks do while it waits."""

import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class CpuTime:
    """Sums up the CPU time of the work that it is given."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """Count by a clock that goes on while this thread runs, in seconds."""
        self.spent = 0.0
        """Seconds since somebody set it to 0."""
        self._clock = clock

    def call(self, work: Callable[[], T]) -> T:
        """Call a function, and count its time."""
        begun = self._clock()
        try:
            return work()
        finally:
            self.spent += self._clock() - begun

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, and count the time of its own steps, not of those between them."""
        return await self._step(work)

    @coroutine
    def _step(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        resume = partial(work.send, None)
        while True:
            try:
                trap = self.call(resume)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                resume = partial(work.send, (yield trap))
            except BaseException as error:  # a cancellation, too, is for the coroutine to handle
                resume = partial(work.throw, error)
