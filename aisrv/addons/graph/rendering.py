"""Views of the state of a graph: nodes and their calls, arcs and their levels, IOs and pins."""

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from aisrv.addons.graph.run.status import ArcStatus, GraphStatus, NodeStatus, ScriptStatus
from aisrv.monitor.fitting_table import Column, FittingTable

BAR: Final = 10
"""Width of the bar of an arc's level, in characters."""
NOTHING: Final = "-"


def draw_graph(graph: GraphStatus, ascii_only: bool) -> Iterator[RenderableType]:
    yield _state(graph)
    nodes = FittingTable(
        Column("node", cut_to=10),
        Column("calls", right=True),
        Column("consumed", right=True, rank=4),
        Column("produced", right=True, rank=3),
        Column("inferences", right=True, rank=2),
        Column("last classes", cut_to=12, rank=1),
        Column("errors", right=True),
    )
    for node in graph.nodes:
        nodes.add_row(*_node(node))
    yield nodes
    arcs = FittingTable(
        Column("arc"),
        Column("fill", rank=1),
        Column("bytes", right=True, rank=2),
        Column("of", right=True, rank=3),
        Column("written", right=True, rank=4),
        Column("overflows", right=True),
        Column("underflows", right=True),
    )
    for arc in graph.arcs:
        counts = arc.filled, arc.size, arc.written, arc.overflows, arc.underflows
        arcs.add_row(str(arc.number), bar(arc, ascii_only), *(f"{count:,}" for count in counts))
    yield arcs
    ios = FittingTable(Column("IO"), Column("bytes", right=True), Column("pins", cut_to=10))
    pins = "  ".join(f"{name}: {int(level)}" for name, level in graph.pins) or NOTHING
    for number, io in enumerate(graph.ios):
        ios.add_row(str(io.hwid), f"{io.moved:,}", "" if number else pins)
    yield ios
    if graph.registers:
        registers = FittingTable(
            Column("arc"), Column("does"), Column("register", right=True), Column("value", right=True)
        )
        for each in graph.registers:
            registers.add_row(str(each.arc), each.does, str(each.register), f"{each.value:,}")
        yield registers
    if graph.scripts is not None:
        yield Text(scripts_text(graph.scripts), no_wrap=True, overflow="crop")


def scripts_text(scripts: ScriptStatus) -> str:
    """Describe the counts of scripts, and the last fault."""
    fault = f"; the last: {scripts.last_fault}" if scripts.last_fault else ""
    return f"scripts: {scripts.runs:,} runs, {scripts.faults:,} faults{fault}"


def bar(arc: ArcStatus, ascii_only: bool) -> str:
    """Draw the level of an arc; one that is not empty shows."""
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


def graph_lines(graph: GraphStatus) -> Iterator[Text]:
    """Sum a graph up in two lines: its calls, and errors at its nodes and arcs."""
    yield _state(graph)
    errors = sum(node.errors for node in graph.nodes)
    overflows = sum(arc.overflows for arc in graph.arcs)
    underflows = sum(arc.underflows for arc in graph.arcs)
    calls = sum(node.calls for node in graph.nodes)
    yield Text(
        f"{len(graph.nodes)} nodes, {calls:,} calls, {errors:,} errors; "
        f"{len(graph.arcs)} arcs, {overflows:,} overflows, {underflows:,} underflows",
        style="yellow" if errors or overflows or underflows else "",
    )


def _state(graph: GraphStatus) -> Text:
    state = f"waits: {graph.waits_for}" if graph.waits_for else f"{graph.visits:,} visits"
    if graph.standstill:
        state = f"stands still: {graph.standstill[0]}"
    return Text(f"graph  {state}", no_wrap=True, overflow="crop")
