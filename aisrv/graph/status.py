"""The state of a running graph at one moment, as values: arcs, nodes, IOs and pins."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from aisrv.graph.drivers import Pin
from aisrv.graph.live import LiveGraph
from aisrv.graph.nodes.inference import Inference

TOP: Final = 3
"""Scores of an inference."""
MOST_SCORES: Final = 4096
"""Bytes of an output up to which they are taken for scores."""


@dataclass(frozen=True, slots=True)
class ArcStatus:
    """An arc: bytes there, its size, and what was lost or made up."""

    number: int
    filled: int
    size: int
    written: int
    """Bytes since RESET."""
    overflows: int
    underflows: int


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node, and what it has done since RESET."""

    name: str
    calls: int
    consumed: int
    """Bytes."""
    produced: int
    errors: int
    inferences: int | None = None
    """Of an AI engine as a node; None for other nodes."""
    top: tuple[tuple[int, int], ...] = ()
    """The largest bytes of its last output, as int8: index and value."""


@dataclass(frozen=True, slots=True)
class IoStatus:
    """An IO of the platform: bytes that crossed it, and whether a transfer runs."""

    hwid: int
    moved: int
    ongoing: bool


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """A graph at one moment."""

    waits_for: str | None
    """Why it does not run; None while it does."""
    runs: int
    visits: int
    """Nodes examined."""
    arcs: tuple[ArcStatus, ...]
    nodes: tuple[NodeStatus, ...]
    ios: tuple[IoStatus, ...]
    pins: tuple[tuple[str, bool], ...]


def graph_status(live: LiveGraph, pins: Iterable[Pin] = ()) -> GraphStatus:
    """Return the state of a graph now."""
    first = live.interpreters[0]
    arcs = (arc for arc in first.state.arcs if arc is not None)
    nodes = []
    for place, entry in enumerate(first.entries):
        counts = [each.entries[place].counts for each in live.interpreters]
        node = entry.node
        nodes.append(
            NodeStatus(
                entry.title,
                sum(each.calls for each in counts),
                sum(each.consumed for each in counts),
                sum(each.produced for each in counts),
                sum(each.errors for each in counts) + (node.errors if isinstance(node, Inference) else 0),
                node.inferences if isinstance(node, Inference) else None,
                _top(node.last_output) if isinstance(node, Inference) else (),
            )
        )
    return GraphStatus(
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
            for arc in arcs
        ),
        tuple(nodes),
        tuple(IoStatus(port.hwid, port.moved, port.ongoing) for port in first.state.ports),
        tuple((pin.name, pin.level) for pin in pins),
    )


def _top(output: bytes) -> tuple[tuple[int, int], ...]:
    if len(output) > MOST_SCORES:
        return ()
    scores = memoryview(output).cast("b")
    best = nlargest(TOP, range(len(scores)), key=scores.__getitem__)
    return tuple((index, scores[index]) for index in best)
