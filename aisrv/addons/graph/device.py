"""The graph of a board: its words, what its IOs are joined to, and its interpreters on cores."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import trio

from aisrv.addons.graph.binary.model import Arc, Format, Graph
from aisrv.addons.graph.board import Graph as GraphPart
from aisrv.addons.graph.compiler.compile import load_graph
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.inference import NAME, Inference
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.nodes.samples import DTYPES
from aisrv.addons.graph.run.commands import Identity
from aisrv.addons.graph.run.drivers import FileInput, FileOutput, FrameDriver, GpioOutput, Pin, StreamEnded
from aisrv.addons.graph.run.engine_client import EngineClient
from aisrv.addons.graph.run.io import Driver
from aisrv.addons.graph.run.live import LiveGraph
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from aisrv.addons.graph.run.status import GraphStatus
from aisrv.board import BoardError, Task
from aisrv.device.device import Device
from aisrv.device.ends import Ends
from aisrv.device.part_factory import PartFactory
from aisrv.device.parts import DeviceParts, Run, RunningPart
from aisrv.sensors.image.frame import FrameSource, SourceError
from aisrv.sensors.sources.opening import open_source
from aisrv.sensors.sources.spec import SourceSpec
from aisrv.values.regular_file import ANY_SIZE, opened_regular
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.signal import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType
    from rich.text import Text

logger = logging.getLogger("aisrv.graph")

_FILE: Final = "file"
_GPIO: Final = "gpio"


@dataclass(frozen=True, slots=True)
class ShownGraph(GraphStatus):
    """The state of a graph, which draws itself."""

    def lines(self) -> "Iterable[Text]":
        from aisrv.addons.graph.rendering import graph_lines  # which needs rich

        return graph_lines(self)

    def draw(self, ascii_only: bool) -> "Iterable[RenderableType]":
        from aisrv.addons.graph.rendering import draw_graph

        return draw_graph(self, ascii_only)


@dataclass(slots=True)
class DeviceGraph(RunningPart):
    """A graph on a device: created with the device's parts, it runs when its first task has its ends."""

    spec: GraphPart
    graph: Graph
    names: tuple[str, ...]
    """The names of nodes by NODE_IDX."""
    log: Callable[[str], None]
    pins: dict[str, Pin] = field(default_factory=dict)
    """The GPIO outputs by name."""
    live: LiveGraph | None = None
    _files: ExitStack = field(default_factory=ExitStack)
    _drivers: dict[int, Driver] = field(default_factory=dict)
    _feeds: list["_Frames"] = field(default_factory=list)
    _running: trio.Event = field(default_factory=trio.Event)
    _cores: list[Signal] = field(default_factory=list)
    """Those of the cores that wait for the first one."""

    @classmethod
    @contextmanager
    def open(cls, spec: GraphPart) -> Iterator[Self]:
        """Read the graph and open what its IOs are joined to, for as long as the block lasts.

        Raises BoardError, SourceError.
        """
        try:
            graph, names = load_graph(spec.path, spec.platform)
            device_graph = cls(spec, graph, names, logger.info)
            device_graph._interpreters(())  # tried here, where the device has not started yet
        except GraphError as error:
            raise BoardError(f"{spec.path}: {error}", "graph", "file") from None
        with device_graph._files:
            for io, text in spec.ios.items():
                try:
                    device_graph._drivers[io] = device_graph._driver(io, text)
                except GraphError as error:
                    raise BoardError(f"{spec.path}: {error}", "graph", "ios", str(io)) from None
            yield device_graph

    def create(self, parts: DeviceParts, task: Task, ends: Ends) -> Run:
        runtime = parts.node.runtime
        if task.number:
            return partial(self.run_core, task.number, runtime)
        numbers = self.spec.numbers(len(parts.board.engines))
        return partial(self.run, runtime, parts.factory, ends.all("engines"), ends.all("changes"), numbers)

    async def run(
        self,
        runtime: Runtime,
        factory: PartFactory,
        ends: Sequence[ChanEnd],
        changes: Sequence[ChanEnd],
        numbers: Sequence[int],
    ) -> None:
        """Run the first interpreter, the IOs and the engines, until cancelled.

        `factory` says how time passes in sources and in passes of interpreters. `ends` and `changes` are
        those of the engines that the graph may use, whose `numbers` are given.
        """
        clients = [
            EngineClient(number, end, change)
            for number, end, change in zip(numbers, ends, changes, strict=True)
        ]
        for feed in self._feeds:
            feed.source = factory.source(feed.source)
        interpreters = self._interpreters(clients)
        live = self.live = LiveGraph(interpreters, self._drivers, clients, runtime, factory.graph_pass)
        self._running.set()
        for core in self._cores:
            core.set()
        async with trio.open_nursery() as nursery:
            runtime.start_task(nursery, live.serve)
            runtime.start_task(nursery, live.interpret, 0)

    async def run_core(self, number: int, runtime: Runtime) -> None:
        """Run another interpreter until cancelled."""
        if self.live is None:
            started = Signal(runtime, "the graph's first core")
            self._cores.append(started)
            await started.wait()
        assert self.live is not None  # noqa: S101 - set before the event
        await self.live.interpret(number)

    async def wait_at_rest(self) -> None:
        """Wait until nothing will move any more, unless somebody sets a model."""
        await self._running.wait()
        assert self.live is not None  # noqa: S101 - set before the event
        await self.live.wait_at_rest()

    def status(self) -> "ShownGraph | None":
        """Return its state now; None before its first task runs."""
        return None if self.live is None else ShownGraph.of(self.live, self.pins.values())

    def _interpreters(self, clients: Sequence[EngineClient]) -> list[Interpreter]:
        engines = {client.number: client for client in clients}
        registry = Registry(self.names, {NAME: partial(Inference, engines)})
        state = GraphState(self.graph)
        return [
            Interpreter(
                state,
                registry,
                identity=Identity(processor=number + 1),
                ios=None if number == 0 else (),
                log=self.log,
            )
            for number in range(self.spec.cores)
        ]

    def _driver(self, io: int, text: str) -> Driver:
        form, transmits = self._format(io)
        scheme, _, what = text.partition(":")
        if scheme == _GPIO:
            if not transmits:
                raise GraphError(f"IO {io} is an input; a GPIO can only be joined to an output")
            return GpioOutput([self._pin(name.strip()) for name in what.split(",")], form)
        if scheme == _FILE:
            path = Path(what)
            try:
                opened = path.open("wb") if transmits else opened_regular(path, ANY_SIZE)
            except OSError as error:
                raise GraphError(f"IO {io}: {path}: {error.strerror}") from None
            file = self._files.enter_context(opened)
            return FileOutput(file) if transmits else FileInput(file)
        if transmits:
            raise GraphError(f"IO {io} is an output: join it to file:PATH or gpio:NAME, not to {text!r}")
        source = open_frames(text, form, paced=self.spec.paced)
        feed = _Frames(source, self.log)
        self._feeds.append(feed)
        return FrameDriver(feed)

    def _pin(self, name: str) -> Pin:
        return self.pins.setdefault(name, Pin(name))

    def _format(self, io: int) -> tuple[Format, bool]:
        """Return the format of an IO on its side of the arc, and whether it is an output."""
        for entry in self.graph.ios:
            arc = self.graph.arcs[entry.arc]
            if entry.hwid == io and isinstance(arc, Arc):
                number = arc.consumer_format if entry.tx else arc.producer_format
                return self.graph.formats[number], bool(entry.tx)
        used = ", ".join(str(entry.hwid) for entry in self.graph.ios) or "none"
        raise GraphError(f"the graph does not use IO {io}; it uses {used}")


def open_frames(text: str, form: Format, folder: Path = Path(), *, paced: bool = True) -> FrameSource:
    """Open the source of an input; what it does not say about samples is as in the graph's format.

    Unless `paced`, samples without a rate of their own come as fast as they are asked for. Raises
    SourceError.
    """
    dtype = DTYPES.get(form.raw)
    if dtype is None or not text.startswith(("wav:", "csv:")):
        return open_source(text, folder)
    instants = max(1, form.frame_bytes // (dtype.itemsize * form.channels))
    if ":window=" not in text:
        text += f":window={instants}"
    spec = SourceSpec.from_text(text).with_defaults(type={"<i1": "int8", "<i2": "int16"}.get(dtype.str))
    rate = f"{form.sampling_rate:.0f}/{instants}"
    if paced and form.sampling_rate >= 1 and "rate" not in spec.options:
        spec = spec.with_defaults(rate=rate, late="keep")
    return open_source(spec, folder)


class _Frames:
    """Frames of a source for an input."""

    def __init__(self, source: FrameSource, log: Callable[[str], None]) -> None:
        self.source = source
        self._log = log

    async def __call__(self) -> bytes:
        """Return the next frame; raises StreamEnded."""
        try:
            return (await self.source.frame()).data
        except SourceError as error:
            self._log(f"an input of the graph ends: {error}")
            raise StreamEnded(str(error)) from None


def graph_of(device: Device) -> DeviceGraph:
    """Return the graph of a device; its board must have one."""
    part = device.part(DeviceGraph)
    assert part is not None, "the board has no graph"  # noqa: S101
    return part
