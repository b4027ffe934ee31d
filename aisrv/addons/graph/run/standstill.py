"""Reasons why a graph whose inputs have more to give stands still."""

from aisrv.addons.graph.nodes.arcs import ArcBuffer, jitter_for_size
from aisrv.addons.graph.run.live import LiveGraph
from aisrv.addons.graph.run.node_entry import NodeEntry


def standstill(live: LiveGraph) -> tuple[str, ...]:
    """Return the reasons, none while something moves or when all input was taken."""
    if live.waits_for is not None or not live.at_rest or live.runs_by_scripts:
        return ()
    state = live.interpreters[0].state
    left = [
        f"IO {port.hwid} has more to give, and there is no room in {_about(port.arc)}"
        for port in state.ports
        if not port.transmits and not port.has_room and not getattr(port.driver, "ended", port.driver is None)
    ]
    entries = (entry for each in live.interpreters for entry in each.entries if entry.ours)
    waiting = [entry for entry in entries if _waits_for_room(entry)]
    if not left and not waiting:
        return ()
    reasons = [
        f"{entry.title} has its input, and no room for its output in {_about(arc)}"
        for entry in waiting
        for arc in entry.outputs
        if not arc.has_room
    ]
    reasons += [
        f"IO {port.hwid} is joined to nothing, and its output waits in {_about(port.arc)}"
        for port in state.ports
        if port.transmits and port.driver is None and port.arc.has_frame
    ]
    reasons += [_dead_lock(arc) for arc in state.arcs if arc is not None and _is_dead(arc)]
    return tuple(left + reasons)


def _waits_for_room(entry: NodeEntry) -> bool:
    has_input = bool(entry.inputs) and all(arc.has_frame for arc in entry.inputs)
    return has_input and not entry.failed and not all(arc.has_room for arc in entry.outputs)


def _is_dead(arc: ArcBuffer) -> bool:
    return arc.filled > 0 and not arc.has_frame and not arc.has_room


def _dead_lock(arc: ArcBuffer) -> str:
    factor = jitter_for_size(arc.size, arc.producer_frame, arc.consumer_frame)
    enough = f": arc_jitter_ctrl {factor} is enough" if factor is not None else ""
    return f"neither a frame to read nor room to write one in {_about(arc)}{enough}"


def _about(arc: ArcBuffer) -> str:
    return (
        f"arc {arc.number}, which holds {arc.filled} of {arc.size} bytes, with frames of "
        f"{arc.producer_frame} in and {arc.consumer_frame} out"
    )
