"""A graph in the status view, and the same counters as JSON."""

import io
import json
from dataclasses import replace
from pathlib import Path

import trio
from rich.console import Console
from trio.testing import MockClock

from aisrv import digits
from aisrv.addons.graph.board import Graph
from aisrv.addons.graph.device import ShownGraph
from aisrv.addons.graph.rendering import bar, draw_graph
from aisrv.addons.graph.run.status import ArcStatus, DebugRegister, ScriptStatus
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.monitor.json_lines import status_line
from aisrv.monitor.snapshot import DeviceMonitor
from aisrv.monitor.values import DeviceStatus
from tests.support.models.graphs import digit_graph, write_words


def status_after(tmp_path: Path) -> DeviceStatus:
    """Three pictures through the digits."""
    (tmp_path / "camera.bin").write_bytes(bytes(64) * 3)
    spec = Graph(
        path=write_words(digit_graph(), tmp_path / "graph.txt"),
        ios={5: "raw:camera.bin:8x8:bayer:rate=1", 7: "gpio:a,b"},
    ).resolved(tmp_path)

    async def main() -> DeviceStatus:
        async with open_device(Board(parts=(spec,)), runner=inline) as device:
            await device.load_model(digits.model_bytes())
            await trio.sleep(5)
            return DeviceMonitor("1-1", device, {}).snapshot()

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def graph_after(tmp_path: Path) -> ShownGraph:
    """The graph's part of it."""
    graph = status_after(tmp_path).parts["graph"]
    assert isinstance(graph, ShownGraph)
    return graph


def test_counters_are_those_of_the_run(tmp_path: Path) -> None:
    status = status_after(tmp_path)
    graph = json.loads(status_line(status))["graph"]
    assert [(node["name"], node["consumed"], node["produced"]) for node in graph["nodes"]] == [
        ("sigp_stream_converter 0", 192, 192),
        ("aisrv_stream_inference 0", 192, 30),
    ]
    assert (graph["nodes"][1]["inferences"], graph["waits_for"]) == (3, None)
    assert [arc["written"] for arc in graph["arcs"]] == [192, 192, 30]
    assert [(io["hwid"], io["moved"], io["ongoing"]) for io in graph["ios"]] == [
        (5, 192, True),
        (7, 30, False),
    ]
    assert graph["pins"] == [["a", False], ["b", False]]


def test_the_view_shows_nodes_arcs_and_pins(tmp_path: Path) -> None:
    status = graph_after(tmp_path)
    text = io.StringIO()
    Console(file=text, width=120).print(*draw_graph(status, ascii_only=True))
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert ["sigp_stream_converter", "0", "3", "192", "192", "-", "-", "0"] in lines
    assert ["1", "..........", "0", "64", "192", "0", "0"] in lines
    assert ["5", "192", "a:", "0", "b:", "0"] in lines


def test_the_view_shows_scripts_registers_and_why_a_graph_stands_still(tmp_path: Path) -> None:
    status = graph_after(tmp_path)
    status = replace(
        status,
        scripts=ScriptStatus(7, 2, "script 0, word 1: opcode fault"),
        registers=(DebugRegister(1, 3, "peak", 1200),),
        standstill=("IO 5 has more to give",),
    )
    text = io.StringIO()
    Console(file=text, width=120).print(*draw_graph(status, ascii_only=True))
    lines = text.getvalue().splitlines()
    assert lines[0] == "graph  stands still: IO 5 has more to give"
    assert ["1", "peak", "3", "1,200"] in [line.split() for line in lines]
    assert lines[-1] == "scripts: 7 runs, 2 faults; the last: script 0, word 1: opcode fault"


def test_bars() -> None:
    def arc(filled: int) -> ArcStatus:
        return ArcStatus(0, filled, 64, 0, 0, 0)

    assert [bar(arc(filled), True) for filled in (0, 1, 32, 64)] == [
        "..........",
        "#.........",
        "#####.....",
        "##########",
    ]
