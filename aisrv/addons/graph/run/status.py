"""The state of a running graph at one moment, as values: arcs, nodes, IOs and pins."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Self

from aisrv.addons.graph.binary.model import Arc
from aisrv.addons.graph.nodes.inference import Inference
from aisrv.addons.graph.run.arc_debug import command_name, register_value
from aisrv.addons.graph.run.drivers import Pin
from aisrv.addons.graph.run.live import LiveGraph
from aisrv.addons.graph.run.standstill import standstill
from aisrv.addons.graph.run.state import GraphState

TOP: Final = 3
"""Scores of an inference."""
MOST_SCORES: Final = 4096
"""Largest output, in bytes, that is taken for scores."""


@dataclass(frozen=True, slots=True)
class ArcStatus:
    """An arc: its filled bytes, its size, its losses and fillings."""

    number: int
    filled: int
    size: int
    written: int
    """Bytes since RESET."""
    overflows: int
    underflows: int


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node, with its counters since RESET."""

    name: str
    calls: int
    consumed: int
    produced: int
    errors: int
    inferences: int | None = None
    """Inferences of an AI engine as a node; None for other nodes."""
    top: tuple[tuple[int, int], ...] = ()
    """Largest bytes of its last output, as int8: index and value."""


@dataclass(frozen=True, slots=True)
class IoStatus:
    """An IO of the platform: bytes that crossed it, and whether a transfer runs."""

    hwid: int
    moved: int
    ongoing: bool


@dataclass(frozen=True, slots=True)
class ScriptStatus:
    """The scripts of a graph since RESET."""

    runs: int
    faults: int
    last_fault: str
    """Script, word and reason; empty without one."""


@dataclass(frozen=True, slots=True)
class DebugRegister:
    """The debug register of an arc."""

    arc: int
    register: int
    """Number, 16 a page."""
    does: str
    """Action of the arc at each write."""
    value: int


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """A graph at one moment."""

    waits_for: str | None
    runs: int
    visits: int
    arcs: tuple[ArcStatus, ...]
    nodes: tuple[NodeStatus, ...]
    ios: tuple[IoStatus, ...]
    pins: tuple[tuple[str, bool], ...]
    scripts: ScriptStatus | None = None
    registers: tuple[DebugRegister, ...] = ()
    standstill: tuple[str, ...] = ()
    """Reasons for a standstill though inputs have more to give; empty while it runs."""

    @classmethod
    def of(cls, live: LiveGraph, pins: Iterable[Pin] = ()) -> Self:
        """Return the state of a graph now."""
        first = live.interpreters[0]
        return cls(
            live.waits_for,
            sum(each.runs for each in live.interpreters),
            sum(each.visits for each in live.interpreters),
            tuple(
                ArcStatus(
                    arc.number,
                    arc.filled,
                    arc.size,
                    arc.bytes_written,
                    arc.errors.overflows,
                    arc.errors.underflows,
                )
                for arc in first.state.arcs
                if arc is not None
            ),
            tuple(_nodes(live)),
            tuple(IoStatus(port.hwid, port.moved, port.ongoing) for port in first.state.ports),
            tuple((pin.name, pin.level) for pin in pins),
            _scripts(live),
            tuple(_registers(first.state)),
            standstill(live),
        )


def _nodes(live: LiveGraph) -> Iterator[NodeStatus]:
    first = live.interpreters[0]
    for place, entry in enumerate(first.entries):
        counts = [each.entries[place].counts for each in live.interpreters]
        node = entry.node
        yield NodeStatus(
            entry.title,
            sum(each.calls for each in counts),
            sum(each.consumed for each in counts),
            sum(each.produced for each in counts),
            sum(each.errors for each in counts) + (node.errors if isinstance(node, Inference) else 0),
            node.inferences if isinstance(node, Inference) else None,
            _top(node.last_output) if isinstance(node, Inference) else (),
        )


def _scripts(live: LiveGraph) -> ScriptStatus | None:
    counts = [each.script_counts for each in live.interpreters]
    graph = live.interpreters[0].state.graph
    if not graph.scripts and not any(node.is_script for node in graph.nodes):
        return None
    return ScriptStatus(
        sum(each.runs for each in counts),
        sum(each.faults for each in counts),
        next((each.last_fault for each in counts if each.last_fault), ""),
    )


def _registers(state: GraphState) -> Iterator[DebugRegister]:
    for number, arc in enumerate(state.graph.arcs):
        if isinstance(arc, Arc) and arc.debug_command and arc.debug_register < len(state.debug_registers):
            register = arc.debug_register
            value = register_value(arc.debug_command, state.debug_registers[register])
            yield DebugRegister(number, register, command_name(arc.debug_command), value)


def _top(output: bytes) -> tuple[tuple[int, int], ...]:
    if len(output) > MOST_SCORES:
        return ()
    scores = memoryview(output).cast("b")
    best = nlargest(TOP, range(len(scores)), key=scores.__getitem__)
    return tuple((index, scores[index]) for index in best)
