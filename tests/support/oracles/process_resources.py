"""What this process holds that a test may leave behind: descriptors, processes, tasks."""

import os
from pathlib import Path

import trio


def count_descriptors() -> int:
    """File descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def child_processes() -> list[int]:
    """Processes that the main thread of this one started, and nobody waited for yet."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Whether there is such a process, or somebody has not waited for it yet."""
    return Path(f"/proc/{pid}").exists()


def count_tasks() -> int:
    """All tasks of the run, but for those that look for deadlocks, which come and go by the clock."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, count = [root], 0
    while waiting:
        task = waiting.pop()
        count += task.name != "deadlock watch"
        for nursery in task.child_nurseries:
            waiting += nursery.child_tasks
    return count
