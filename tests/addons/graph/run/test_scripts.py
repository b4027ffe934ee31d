"""Scripts at work in a graph: services, nodes, and when they run."""

from pathlib import Path

import numpy as np
import pytest

from aisrv.addons.graph.compiler.compile import compile_file
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.run.commands import ReturnMode
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from tests.support.models.graphs import GOLDEN, Sink, Source

MANIFEST = GOLDEN / "p1" / "stream_platform" / "computer" / "manifest" / "top_manifest_computer.txt"
COMPUTER = GOLDEN / "p1" / "stream_platform" / "computer" / "graph_computer.txt"

FILTER = """
format_index 0
format_frame_length 8
stream_io 0
stream_io_hwid 1
stream_io 1
stream_io_hwid 9
{control}
node arm_stream_filter 0
    {option}
arc_input 0 1 0 arm_stream_filter 0 0 0
arc_output 1 1 0 arm_stream_filter 0 1 0
script 0
    script_code
        {code}
    end
script 1
    script_code
        r2 = 7
        callsys 3 r2 r0 r1 r3
        return
    end
end
"""


def interpreter(
    tmp_path: Path, code: str, *, control: str = "", option: str = ""
) -> tuple[Interpreter, list[str]]:
    (tmp_path / "graph.txt").write_text(FILTER.format(code=code, control=control, option=option))
    compiled = compile_file(tmp_path / "graph.txt", MANIFEST)
    lines: list[str] = []
    made = Interpreter(GraphState(compiled.graph), Registry(), log=lines.append, clock=lambda: 2.25)
    made.reset()
    return made, lines


CALL = "r2 = 7\n callsys 3 r2 r0 r1 r3\n return"


@pytest.mark.parametrize(
    ("fields", "events"),
    [(0, []), (1, [1]), (2, [2]), (3, [1, 2]), (4, [4]), (8, [8]), (16, [16]), (31, [8, 1, 2, 4, 16])],
)
def test_the_debug_script_runs_when_its_field_says(tmp_path: Path, fields: int, events: list[int]) -> None:
    made, lines = interpreter(tmp_path, CALL, control=f"debug_script_fields {fields}")
    calls: list[tuple[int, int, int]] = []
    made.callbacks[7] = lambda *values: calls.append(values)
    made.attach(1, Source(bytes(8)))
    made.run(ReturnMode.PASS)
    assert [call[0] for call in calls] == events
    word = made.entries[0].word
    assert [call[1] for call in calls if call[0] in (1, 2)] == [word for event in events if event in (1, 2)]
    assert lines == []


def test_a_node_s_script_runs_before_and_after_it(tmp_path: Path) -> None:
    made, lines = interpreter(tmp_path, "return", option="node_script 1")
    calls: list[tuple[int, int, int]] = []
    made.callbacks[7] = lambda *values: calls.append(values)
    made.attach(1, Source(bytes(16)))
    made.attach(9, Sink())
    made.run()
    assert (len(calls), lines) == (4, [])


def test_a_fault_is_logged_and_the_scheduler_goes_on(tmp_path: Path) -> None:
    made, lines = interpreter(
        tmp_path, "r2 = 99\n callsys 3 r2 r0 r1 r3\n return", control="debug_script_fields 8"
    )
    sink = Sink()
    made.attach(1, Source(bytes(16)))
    made.attach(9, sink)
    made.run()
    assert len(sink.data) == 16
    (line,) = lines
    assert line.startswith("script 0, word ")
    assert line.endswith("service fault: the application has no callback 99")


def test_the_public_example_runs_until_its_unknown_service() -> None:
    compiled = compile_file(COMPUTER, MANIFEST)
    lines: list[str] = []
    made = Interpreter(GraphState(compiled.graph), Registry(), log=lines.append)
    made.reset()
    made.run(ReturnMode.PASS)
    assert [line for line in lines if "fault" in line]
    assert "service fault" in lines[-1]


def with_data(code: str, words: str) -> str:
    """A script that calls services with data: at label P of its parameters."""
    return f"{code}\n return\n script_parameters 0\n label P\n {words}"


def test_a_script_gives_a_node_its_parameters(tmp_path: Path) -> None:
    code = with_data(
        "r2 = 2\n set r3 param P\n r4 = 12\n callsys 1 r1 r2 r3 r4", "2 u8; 1 0\n 5 s16; 16384 0 0 0 0"
    )
    made, lines = interpreter(tmp_path, code, control="debug_script_fields 2")
    sink = Sink()
    made.attach(1, Source(np.array([800, -800] * 4, "<i2").tobytes()))
    made.attach(9, sink)
    made.run()
    assert lines == []
    # The filter is a by-pass for the first frame and halves the second.
    assert np.frombuffer(bytes(sink.data), "<i2").tolist() == [800, -800, 800, -800, 400, -400, 400, -400]


def test_a_script_writes_an_arc(tmp_path: Path) -> None:
    code = with_data("r1 = 1\n r2 = 8\n set r3 param P\n r4 = 8\n callsys 2 r1 r2 r3 r4", "4 s16; 1 2 3 4")
    made, lines = interpreter(tmp_path, code, control="debug_script_fields 8")
    sink = Sink()
    made.attach(9, sink)
    made.run()
    assert (lines, np.frombuffer(bytes(sink.data), "<i2").tolist()) == ([], [1, 2, 3, 4])


def test_a_script_reads_an_arc(tmp_path: Path) -> None:
    code = (
        "r1 = 1\n r2 = 9\n set r3 heap H\n set r3 type #int16\n r4 = 8\n callsys 2 r1 r2 r3 r4\n"
        "r5 = [ r3 ]\n r0 = 7\n callsys 3 r0 r5 r4 r1\n return\n script_heap\n label H\n 4 s16; 0 0 0 0"
    )
    made, lines = interpreter(tmp_path, code, control="debug_script_fields 2")
    calls: list[tuple[int, int, int]] = []
    made.callbacks[7] = lambda *values: calls.append(values)
    made.attach(1, Source(np.array([-5, 1, 2, 3], "<i2").tobytes()))
    made.run(ReturnMode.PASS)
    assert (lines, calls) == ([], [(-5, 8, 1)])
    assert made.state.ports[1].arc.filled == 0


def test_a_script_sets_an_io(tmp_path: Path) -> None:
    code = with_data(
        "r1 = 1\n r2 = 2\n set r3 param P\n r4 = 8\n callsys 4 r1 r2 r3 r4", "2 u32; 305419896 7"
    )
    made, lines = interpreter(tmp_path, code, control="debug_script_fields 8")
    made.run(ReturnMode.PASS)
    assert (lines, made.state.ports[1].settings) == ([], (305419896, 7, 0))


def test_a_script_asks_for_the_time(tmp_path: Path) -> None:
    code = "r1 = 43\n callsys 9 r1 r2 r3\n r0 = 7\n callsys 3 r0 r2 r3 r1\n return"
    made, lines = interpreter(tmp_path, code, control="debug_script_fields 8")
    calls: list[tuple[int, int, int]] = []
    made.callbacks[7] = lambda *values: calls.append(values)
    made.run(ReturnMode.PASS)
    assert (lines, [(low & 0xFFFFFFFF, high) for low, high, _ in calls]) == ([], [(0x24000000, 0)])
