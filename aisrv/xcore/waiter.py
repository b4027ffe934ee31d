"""The one way in which a task waits for another to wake it."""

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


def withdraw_nothing() -> None:
    """Withdraw nothing."""


class Waiter(Generic[T]):
    """A place for one task to sleep until another wakes it, at most once however many try."""

    __slots__ = ("_arrived", "_withdraw", "task")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        """The task that sleeps; None once it was woken or cancelled."""
        self._withdraw: Callable[[], object] = withdraw_nothing
        self._arrived: list[tuple[T, None] | tuple[None, Exception]] = []

    async def wait(self, withdraw: Callable[[], object] = withdraw_nothing) -> T:
        """Sleep until `wake`, and return its value, or until `fail`, and raise its error.

        Where the task is cancelled instead, `withdraw` is called at that moment and Cancelled is raised.
        """
        arrived = self._arrived = []  # of this sleep: the next may begin before the task runs on
        self._withdraw = withdraw
        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        value, error = arrived[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # there is a value where there is no error

    def wake(self, value: T) -> bool:
        """Let the task run on with a value; False where none sleeps."""
        task = self.task
        if task is None:
            return False
        self._arrived.append((value, None))
        self._leave()
        trio.lowlevel.reschedule(task)
        return True

    def fail(self, error: Exception) -> bool:
        """Let the task run on with an error that `wait` raises; False where none sleeps."""
        task = self.task
        if task is None:
            return False
        self._arrived.append((None, error))
        self._leave()
        trio.lowlevel.reschedule(task)
        return True

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._leave()
        self._withdraw()
        return trio.lowlevel.Abort.SUCCEEDED

    def _leave(self) -> None:
        """Forget the task, which runs on from now."""
        self.task = None
