"""The team of threads of this process: how many there are, and how steps are cut into pieces for them.

The threads themselves are the library's (`team.h`).
"""

import ctypes
import os
from pathlib import Path
from typing import Any, Final

from aisrv.addons.kernels.backends.native.library import Library, NativeError, Variant

PIECE_WORK: Final = 1 << 17
"""Multiply-accumulates of a piece at least: about a microsecond."""
MOST_PIECES: Final = (1 << 16) - 1
"""Of a step, which the library counts in 16 bits."""
ITEMS_PER_THREAD: Final = 4
"""So that a thread that comes late leaves more to the others."""


def shared_items(work: int, threads: int) -> int:
    """Items that a step of so many multiply-accumulates is cut into for threads; 0 or 1 where it is not."""
    return min(ITEMS_PER_THREAD * threads, work // PIECE_WORK)


def usable_cores() -> int:
    """Count the cores that this process may use, by its affinity and the quota of its control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(cores, quota())))


def quota(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float:
    """Cores' time that the control groups of this process allow, infinity without a limit.

    Source: Linux's "Control Group v2", sections "Organizing Processes" and "CPU Interface Files".
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:  # another system
        return float("inf")
    group = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    return min(_limit(root / folder) for folder in (Path(group), *Path(group).parents))


def _limit(group: Path) -> float:
    try:
        most, _, period = (group / "cpu.max").read_text().partition(" ")
        return int(most) / int(period)
    except (OSError, ValueError):  # no such file, or "max"
        return float("inf")


class Team:
    """The threads that run steps of a variant: the calling one, and some of the process's helpers.

    Helpers end when the last team of the process is dropped.
    """

    def __init__(self, library: Library, variant: Variant, threads: int = 1) -> None:
        """Start helpers, as far as there are cores for them. Raises NativeError where none start."""
        self.variant: Final = variant
        self.threads: Final = 1 if threads == 1 else min(threads, usable_cores())
        self._functions: Final = library.functions
        self._has_joined = False
        if self.threads > 1:
            self._has_joined = True
            if not self._functions.aisrv_team_join(self.threads - 1):
                raise NativeError(f"the system does not start {self.threads} threads")

    def pieces(self, work: int, items: int) -> int:
        """Cut `work`, multiply-accumulates, of so many `items` into pieces worth a thread's while."""
        return 1 if self.threads == 1 else max(1, min(items, work // PIECE_WORK, MOST_PIECES))

    def call(self, *, shared: bool) -> tuple[Any, ...]:
        """The function that runs steps, some of them in pieces or none, and its arguments before these."""
        if not shared:
            return (self._functions.aisrv_run,)
        return self._functions.aisrv_team_run, ctypes.c_int64(self.threads)

    def __del__(self) -> None:
        """Leave the helpers to others."""
        if getattr(self, "_has_joined", False):
            self._functions.aisrv_team_leave()
