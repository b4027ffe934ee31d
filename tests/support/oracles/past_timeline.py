"""Which cores of a node in device time Trio runs on past its timeline."""

from inspect import CORO_CREATED, getcoroutinestate

import trio

from aisrv.xcore.core import current_core


class Scheduled(trio.abc.Instrument):
    """Notes the cores that Trio runs on though they had no turn, by any of their tasks.

    That a task of a core begins is no step of the core: it waits for its turn then. The deadlock watch is
    outside of the timeline.
    """

    def __init__(self) -> None:
        self.past: set[str] = set()
        self.turns = 0

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        core = task.context.run(current_core)
        begins = getcoroutinestate(task.coro) == CORO_CREATED
        if core is None or begins or task.name == "deadlock watch":
            return
        running = trio.lowlevel.current_task() if _in_a_task() else None
        if running is None or "turns" not in running.name:
            self.past.add(core.name)
        self.turns += 1


def _in_a_task() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
