"""The Trio shell around interpreters: it runs a graph until it starves, then waits for what comes next.

What IOs and engines have to say is queued, and enters between two RUNs only: IOs by number, then engines by
number. So there is one order of events, whatever order tasks wake in, and one trace.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from aisrv.graph.commands import ReturnMode
from aisrv.graph.drivers import Post, TaskDriver
from aisrv.graph.engine_client import EngineClient
from aisrv.graph.io import Driver, IoPort
from aisrv.graph.scheduler import Interpreter

logger = logging.getLogger(__name__)


class LiveGraph:
    """A graph that runs: its interpreters, each a task, the drivers of its IOs, and the engines it uses."""

    def __init__(
        self,
        interpreters: Sequence[Interpreter],
        drivers: Mapping[int, Driver] | None = None,
        engines: Sequence[EngineClient] = (),
    ) -> None:
        """Take interpreters of one graph, and drivers by the platform's number of the IO (IO_AL_idx).

        Raises GraphError where the graph does not use one of these IOs.
        """
        self.interpreters: Final = tuple(interpreters)
        self.engines: Final = tuple(engines)
        self._tasks: list[Callable[[Post], Awaitable[None]]] = []
        self._arrived: list[tuple[int, IoPort, bytes]] = []
        self._wakers = [trio.Event() for _ in self.interpreters]
        for hwid, driver in (drivers or {}).items():
            self._attach(hwid, driver)
            if isinstance(driver, TaskDriver):
                self._tasks.append(driver.run)

    def _attach(self, hwid: int, driver: Driver) -> None:
        owners = [each for each in self.interpreters if any(port.hwid == hwid for port in each.ports)]
        for interpreter in owners or self.interpreters[:1]:
            interpreter.attach(hwid, driver)

    def post(self, port: IoPort, data: bytes) -> None:
        """Have the bytes of an input enter before the next RUN."""
        self._arrived.append((port.number, port, data))
        self.wake()

    def wake(self) -> None:
        """Have all interpreters look again."""
        for waker in self._wakers:
            waker.set()

    async def run(self) -> None:
        """Run until cancelled. The interpreters have been reset."""
        async with trio.open_nursery() as nursery:
            for task in self._tasks:
                nursery.start_soon(task, self.post)
            for engine in self.engines:
                nursery.start_soon(engine.serve, self.wake)
            for number in range(len(self.interpreters)):
                nursery.start_soon(self._interpret, number)

    async def _interpret(self, number: int) -> None:
        interpreter = self.interpreters[number]
        while True:
            self._wakers[number] = trio.Event()
            self._enter()
            crossed = sum(port.moved for port in interpreter.ports)
            moved = interpreter.run(ReturnMode.PASS)
            if moved or crossed != sum(port.moved for port in interpreter.ports):
                for other, waker in enumerate(self._wakers):
                    if other != number:
                        waker.set()
                await trio.lowlevel.checkpoint()
            else:
                await self._wakers[number].wait()

    def _enter(self) -> None:
        """Let in what has arrived, in the order of the numbers of IOs and engines."""
        arrived = sorted(self._arrived, key=lambda entry: entry[0])
        self._arrived.clear()
        for _, port, data in arrived:
            port.acknowledge(data)
        for engine in self.engines:
            while engine.finished:
                engine.finished.popleft().entered = True
