"""Nodes in device time on a virtual clock: what their cores did, and at which clock each of them ended."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from aisrv.xcore.core import current_core
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timed.core import TimedCore


def core_clock() -> int:
    """The clock of the running core."""
    core = current_core()
    assert isinstance(core, TimedCore)
    return core.clock


class TimedRun:
    """Starts cores on a node, and keeps at which clock each of them ended."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ends: dict[str, int] = {}
        self.log: list[Any] = []

    def start(self, tile: int, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """Run a job on a core of a tile."""

        async def run() -> None:
            await job()
            self.ends[name] = core_clock()

        self.node.tiles[tile].start(run, name=name)


def timed_run(build: Callable[[TimedRun], object], *, seed: int | None = None, **options: Any) -> TimedRun:
    """Run the cores that `build` starts to their end; `seed` shuffles the order in which Trio runs tasks."""

    async def run() -> TimedRun:
        async with open_node(classes=TIMED, **options) as node:
            made = TimedRun(node)
            build(made)
        made.log.append(("seconds", round(trio.current_time() * 1e8)))
        return made

    clock = trio.testing.MockClock(autojump_threshold=0)
    if seed is None:
        return trio.run(run, clock=clock)
    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        return trio.run(run, clock=clock)
