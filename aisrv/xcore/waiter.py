"""How a task waits until another wakes it: the one primitive for that."""

import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

if TYPE_CHECKING:
    from typing import AwaitableGenerator

T = TypeVar("T")
Sleep: TypeAlias = "AwaitableGenerator[Any, Any, T, Generator[Any, Any, T]]"
"""An awaitable of a task, which generators that a task awaits yield from."""


def no_cleanup() -> None:
    """Do nothing where a task is cancelled that waits."""


class Failure:
    """An error on its way to the task."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Waiter(Generic[T]):
    """A place for one task to sleep until another wakes it, at most once however many try."""

    __slots__ = ("_withdraw", "task")

    def __init__(self) -> None:
        self.task: Task | None = None
        """The task that sleeps; None once it was woken or cancelled."""
        self._withdraw: Callable[[], object] = no_cleanup

    def wait(self, withdraw: Callable[[], object] = no_cleanup) -> "Sleep[T]":
        """Sleep until `wake`, and return its value, or until `fail`, and raise its error.

        Where the task is cancelled instead, `withdraw` is called at that moment and Cancelled is raised.
        """
        return self._sleep(current_task(), withdraw)

    @types.coroutine  # for verbs, which are generators: they `yield from` it, others await it
    def _sleep(self, task: Task, withdraw: Callable[[], object]) -> Generator[Any, Any, T]:
        self.task = task
        self._withdraw = withdraw
        yield from wait_task_rescheduled(self._abort)  # noqa: ASYNC105 - as above
        result: T | Failure = task.custom_sleep_data
        task.custom_sleep_data = None  # the task must not keep it alive until it sleeps again
        if isinstance(result, Failure):
            raise result.error
        return result

    def wake(self, value: T) -> bool:
        """Let the task run on with a value; False where none sleeps."""
        task = self.task
        if task is None:
            return False
        self._leave()
        reschedule(task)
        task.custom_sleep_data = value  # with the task, as another may sleep here before this one runs on
        return True

    def fail(self, error: Exception) -> bool:
        """Let the task run on with an error that `wait` raises; False where none sleeps."""
        return self.wake(Failure(error))  # type: ignore[arg-type]  # no value: `wait` raises it

    def _abort(self, _: object) -> Abort:
        withdraw = self._withdraw
        self._leave()
        withdraw()
        return Abort.SUCCEEDED

    def _leave(self) -> None:
        """Forget the task, which runs on from now, and what it withdraws, which mostly holds this waiter."""
        self.task = None
        self._withdraw = no_cleanup
