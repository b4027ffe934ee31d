"""The Trio shell around interpreters: it runs a graph until it starves, then waits for events.

Events of IOs and engines are queued, and enter between two RUNs only: IOs by number, then engines by number.
So there is one order of events, whatever order tasks wake in, and one trace.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.run.commands import ReturnMode
from aisrv.addons.graph.run.drivers import Post, TaskDriver
from aisrv.addons.graph.run.engine_client import EngineClient
from aisrv.addons.graph.run.io import Driver, IoPort
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.signal import Signal

logger = logging.getLogger(__name__)


class LiveGraph:
    """A graph that runs: its interpreters, each a task, the drivers of its IOs, and the engines it uses.

    It begins when each node takes its parameters, those of inferences when their engine has its model; a
    model with tensors of other lengths begins it anew.
    """

    def __init__(
        self,
        interpreters: Sequence[Interpreter],
        drivers: Mapping[int, Driver],
        engines: Sequence[EngineClient],
        runtime: Runtime,
        count_pass: Callable[[int, int], None],
    ) -> None:
        """Take interpreters of one graph, and drivers by the platform's number of the IO (IO_AL_idx).

        `count_pass` hears of each pass how many calls of nodes it had, and how many bytes they moved.
        Raises GraphError if the graph does not use one of these IOs.
        """
        self.interpreters: Final = tuple(interpreters)
        self.engines: Final = tuple(engines)
        self.waits_for: str | None = "its start"
        """Reason why the graph does not run; None while it does."""
        self._tasks: list[Callable[[Post], Awaitable[None]]] = []
        self._arrived: list[tuple[int, IoPort, bytes]] = []
        self._runtime: Final = runtime
        self._count_pass: Final = count_pass
        self._wakers = [Signal(runtime, "the graph") for _ in self.interpreters]
        self._models: tuple[int, ...] | None = None
        self._drivers = dict(drivers)
        self._resting = [False] * len(self.interpreters)
        self._by_scripts = [0] * len(self.interpreters)
        self._rested = trio.Event()
        for hwid, driver in drivers.items():
            owners = [each for each in self.interpreters if any(port.hwid == hwid for port in each.ports)]
            for interpreter in owners or self.interpreters[:1]:
                interpreter.attach(hwid, driver)
            if isinstance(driver, TaskDriver):
                self._tasks.append(driver.run)

    @property
    def at_rest(self) -> bool:
        """Return whether nothing will move any more but the data of scripts, unless somebody sets a model."""
        return (
            all(self._resting)
            and not self._arrived
            and all(engine.at_rest and not engine.finished for engine in self.engines)
            and not any(
                port.ongoing
                and not port.transmits
                and not getattr(port.driver, "ended", False)
                and port.has_room
                for port in self.interpreters[0].state.ports
            )
        )

    async def wait_at_rest(self) -> None:
        while not self.at_rest:
            self._rested = trio.Event()
            await self._rested.wait()

    def post(self, port: IoPort, data: bytes) -> None:
        """Have the bytes of an input enter before the next RUN."""
        self._arrived.append((port.number, port, data))
        self.wake()

    def wake(self) -> None:
        """Have all interpreters look again."""
        for number, waker in enumerate(self._wakers):
            self._resting[number] = False
            waker.set()

    async def serve(self) -> None:
        """Serve the IOs and the engines until cancelled."""
        async with trio.open_nursery() as nursery:
            for task in self._tasks:
                self._runtime.start_task(nursery, self._serve_input, task)
            for engine in self.engines:
                self._runtime.start_task(nursery, engine.serve, self.wake)
            await trio.sleep_forever()

    async def _serve_input(self, task: Callable[[Post], Awaitable[None]]) -> None:
        await task(self.post)
        self.wake()  # it has ended

    async def interpret(self, number: int) -> None:
        """Run one of the interpreters until cancelled; the first lets in what has arrived."""
        while True:
            self._wakers[number].clear()
            if number == 0:
                self._begin()
                self._enter()
            if self.waits_for is None and self._pass(number):
                self._wake_others(number)
                self._resting[number] = self._is_driven(number)
                if self.at_rest:
                    self._rested.set()
                await self._runtime.let_others_run()
            else:
                self._resting[number] = True
                if self.at_rest:
                    self._rested.set()
                await self._wakers[number].wait()

    @property
    def runs_by_scripts(self) -> bool:
        """Return whether an interpreter goes on only because its scripts write data into arcs."""
        return any(map(self._is_driven, range(len(self.interpreters))))

    def _is_driven(self, number: int) -> bool:
        """Whether scripts have kept an interpreter busy until all that came from elsewhere has passed."""
        return self._by_scripts[number] > len(self.interpreters[number].entries) + 1

    def _pass(self, number: int) -> bool:
        """Run a pass; return whether anything moved, over an IO, in a node or, for a while, by a script."""
        interpreter = self.interpreters[number]
        ports, scripts = interpreter.ports, interpreter.script_counts
        before = [port.moved for port in ports]
        written = scripts.written
        calls, nbytes = _moved(interpreter)
        moved = interpreter.run(ReturnMode.PASS)
        all_calls, all_bytes = _moved(interpreter)
        self._count_pass(all_calls - calls, all_bytes - nbytes)
        crossed = [port for port, count in zip(ports, before, strict=True) if port.moved != count]
        if scripts.written == written or not all(port.transmits for port in crossed):
            self._by_scripts[number] = 0
            return moved or bool(crossed)
        self._by_scripts[number] += 1
        return moved or bool(crossed) or not self._is_driven(number)

    def _wake_others(self, number: int) -> None:
        for other, waker in enumerate(self._wakers):
            if other != number:
                self._resting[other] = False
                waker.set()

    def _begin(self) -> None:
        """RESET, at the start and when the tensors of an engine have other lengths than at the last."""
        models = tuple(engine.models for engine in self.engines)
        if models == self._models:
            return
        if not all(models) or any(engine.busy for engine in self.engines):
            return
        self._models = models
        for engine in self.engines:
            engine.finished.clear()
        try:
            for interpreter in self.interpreters:
                interpreter.reset()
        except GraphError as error:
            self.waits_for = str(error)
            logger.info("the graph does not run: %s", error)
        else:
            self.waits_for = None
            self._wake_others(0)

    def _enter(self) -> None:
        """Let in what has arrived, in the order of the numbers of IOs and engines."""
        entered = bool(self._arrived)
        arrived = sorted(self._arrived, key=lambda entry: entry[0])
        self._arrived.clear()
        for _, port, data in arrived:
            port.acknowledge(data)
            if port.ongoing and port.has_room and port.driver is not None:
                port.driver.request(port)  # the transfer goes on until the reader has a frame
        for engine in self.engines:
            while engine.finished:
                engine.finished.popleft().entered = True
                entered = True
        if entered:
            self._wake_others(0)


def _moved(interpreter: Interpreter) -> tuple[int, int]:
    """Return the calls of nodes since RESET, and the bytes that they took and gave."""
    counts = [entry.counts for entry in interpreter.entries]
    return sum(each.calls for each in counts), sum(each.consumed + each.produced for each in counts)
