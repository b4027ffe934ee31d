"""The heart on a device that runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from aisrv.board import Task
from aisrv.device.ends import Ends
from aisrv.device.parts import DeviceParts, Run, RunningPart
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command
from heartbeat.board import Heartbeat


class RunningHeart(RunningPart):
    """Counts its beats."""

    def __init__(self, spec: Heartbeat) -> None:
        self.spec = spec
        self.beats = 0

    @classmethod
    @contextmanager
    def open(cls, spec: Heartbeat) -> Iterator["RunningHeart"]:
        """Have a heart that has not begun to beat."""
        yield cls(spec)

    def create(self, parts: DeviceParts, task: Task, ends: Ends) -> Run:
        """Return its task, which asks the engine at each beat."""
        _ = parts, task
        engine = ends.one("engine")

        async def run() -> None:
            while True:
                await trio.sleep(1 / self.spec.rate)
                await get_command(engine, Command.GET_STATUS)
                self.beats += 1

        return run
