"""Draws the state of a graph with rich: nodes and their calls, arcs and how full they are, IOs and pins."""

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aisrv.graph.status import ArcStatus, GraphStatus, NodeStatus

BAR: Final = 10
"""Characters of the bar that shows how full an arc is."""
NOTHING: Final = "-"


def draw_graph(graph: GraphStatus, ascii_only: bool) -> Iterator[RenderableType]:
    """Draw a graph, below a device."""
    state = f"waits: {graph.waits_for}" if graph.waits_for else f"{graph.visits:,} visits"
    yield Text(f"graph  {state}", no_wrap=True, overflow="crop")
    nodes = _table("node", "calls", "consumed", "produced", "inferences", "last classes", "errors")
    for node in graph.nodes:
        nodes.add_row(*_node(node))
    yield nodes
    arcs = _table("arc", "fill", "bytes", "of", "written", "overflows", "underflows")
    for arc in graph.arcs:
        counts = arc.filled, arc.size, arc.written, arc.overflows, arc.underflows
        arcs.add_row(str(arc.number), bar(arc, ascii_only), *(f"{count:,}" for count in counts))
    yield arcs
    ios = _table("IO", "bytes", "pins")
    pins = "  ".join(f"{name}: {int(level)}" for name, level in graph.pins) or NOTHING
    for number, io in enumerate(graph.ios):
        ios.add_row(str(io.hwid), f"{io.moved:,}", "" if number else pins)
    yield ios


def bar(arc: ArcStatus, ascii_only: bool) -> str:
    """Draw how full an arc is; one that is not empty shows."""
    length = -(-BAR * arc.filled // arc.size) if arc.size else 0
    return ("#" if ascii_only else "█") * length + ("." if ascii_only else "░") * (BAR - length)


def _node(node: NodeStatus) -> tuple[str, ...]:
    return (
        node.name,
        f"{node.calls:,}",
        f"{node.consumed:,}",
        f"{node.produced:,}",
        NOTHING if node.inferences is None else f"{node.inferences:,}",
        "  ".join(f"{index}: {value}" for index, value in node.top) or NOTHING,
        f"{node.errors:,}",
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place > 1 else "left", no_wrap=True, overflow="crop")
    return table
