"""The scheduler against the public one, and its rules one by one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aisrv.addons.graph.binary.model import IDLE, TRANSFER_RUNS
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import Bytes
from aisrv.addons.graph.nodes.node import Moved, NodeSetup, StreamNode
from aisrv.addons.graph.nodes.registry import STANDARD_NODES, Registry
from aisrv.addons.graph.run import scheduler
from aisrv.addons.graph.run.commands import Command, Identity, ReturnMode
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import MOST_MEMORY, GraphState
from tests.support.models.graphs import (
    STREAM,
    GraphBuilder,
    Sink,
    Source,
    chain,
    form,
    golden_audio,
    golden_graph,
    golden_runtime,
    high_pass,
)

NAMES = (*STANDARD_NODES, "mine")


def trace_line(call: int, interpreter: Interpreter) -> str:
    state = interpreter.state
    words = " ".join(f"{word:08X}" for arc in state.arcs if arc is not None for word in arc.words())
    ongoing = " ".join(f"{TRANSFER_RUNS if port.ongoing else IDLE:02X}" for port in state.ports)
    return f"{call} {words} ongoing {ongoing} link {interpreter.link:X}"


@pytest.mark.parametrize("mode", list(ReturnMode))
def test_traces_and_output_are_those_of_the_public_scheduler(mode: ReturnMode) -> None:
    interpreter = Interpreter(GraphState(golden_graph("c1_filter_only")), Registry())
    interpreter.reset()
    sink = Sink()
    interpreter.attach(1, Source(golden_audio()))
    interpreter.attach(9, sink)
    golden = golden_runtime(f"c1_arcs_mode{mode.value}.txt").read_text().splitlines()
    lines = []
    for call in range(len(golden)):
        interpreter.run(mode)
        lines.append(trace_line(call, interpreter))
    assert lines == golden
    assert bytes(sink.data) == golden_runtime("c1_out.raw").read_bytes()


def test_the_golden_stream_opens_the_gate_in_the_same_frames() -> None:
    interpreter = chain(
        (4, 8),
        [form(640), form(640), form(2)],
        [("arm_stream_filter", high_pass(), 1), ("sigp_stream_detector", b"", 5)],
    ).interpreter()
    sink = Sink()
    interpreter.attach(4, Source(golden_audio()))
    interpreter.attach(8, sink)
    interpreter(Command.RUN)
    expected = np.fromfile(STREAM / "trace_100frames.raw", "<i4")
    assert np.frombuffer(sink.data, "<i2").tolist() == expected.tolist()


class Mine(StreamNode):
    """Copies at most `step` bytes a call, and says to call again."""

    step = 1
    setups: Sequence[NodeSetup] = ()

    def reset(self, setup: NodeSetup) -> None:
        self.setups = [*self.setups, setup]
        self.calls = 0
        self.stopped = False

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        self.calls += 1
        size = min(self.step, len(inputs[0]), len(outputs[0]))
        outputs[0][:size] = inputs[0][:size]
        return Moved((size,), (size,), again=True)

    def stop(self) -> None:
        self.stopped = True


def mine_graph(**head: Any) -> GraphBuilder:
    builder = GraphBuilder(processors=3)
    source, target = builder.arc(form(8), form(8)), builder.arc(form(1), form(1), jitter=8)
    builder.io(1, source)
    builder.io(2, target, tx=True)
    builder.node("mine", [source], [target], names=NAMES, **head)
    return builder


def test_a_node_is_called_at_most_four_times_a_visit() -> None:
    mine = Mine()
    interpreter = mine_graph().interpreter({"mine": lambda: mine}, names=NAMES)
    interpreter.attach(1, Source(bytes(8)))
    interpreter.run(ReturnMode.PASS)
    assert mine.calls == 4


def test_a_node_that_moves_nothing_is_called_once() -> None:
    mine = Mine()
    mine.step = 0
    interpreter = mine_graph().interpreter({"mine": lambda: mine}, names=NAMES)
    interpreter.attach(1, Source(bytes(8)))
    assert interpreter.run() is False
    assert mine.calls == 1


@pytest.mark.parametrize(
    ("head", "calls"),
    [({}, 4), ({"processor": 1}, 4), ({"processor": 2}, 0), ({"architecture": 2}, 0), ({"priority": 1}, 0)],
)
def test_a_node_bound_to_another_core_is_skipped(head: dict[str, int], calls: int) -> None:
    mine = Mine()
    interpreter = mine_graph(**head).interpreter({"mine": lambda: mine}, names=NAMES)
    interpreter.attach(1, Source(bytes(8)))
    interpreter.run(ReturnMode.PASS)
    assert (mine.calls, interpreter.visits) == (calls, 1 if calls else 0)


def test_a_locked_node_is_skipped_and_not_examined() -> None:
    mine = Mine()
    interpreter = mine_graph().interpreter({"mine": lambda: mine}, names=NAMES)
    interpreter.attach(1, Source(bytes(8)))
    target = interpreter.state.arcs[1]
    assert target is not None
    target.collision = Identity(processor=2).byte
    interpreter.run(ReturnMode.NODE)
    assert (mine.calls, interpreter.visits) == (0, 0)
    target.collision = 0
    interpreter.run(ReturnMode.NODE)
    assert (mine.calls, target.collision) == (4, 0)


def test_two_interpreters_share_a_graph_and_never_run_a_node_at_once() -> None:
    inner: list[int] = []

    class Nested(Mine):
        def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
            if not inner:
                inner.append(0)
                second.run(ReturnMode.PASS)
                inner.append(second.visits)
            return super().run(inputs, outputs)

    nested = Nested()
    state = GraphState(mine_graph().build())
    registry = Registry(NAMES, {"mine": lambda: nested})
    first = Interpreter(state, registry)
    second = Interpreter(state, registry, identity=Identity(processor=2), ios=())
    first.reset()
    second.reset()
    first.attach(1, Source(bytes(8)))
    first.run(ReturnMode.PASS)
    assert inner == [0, 0]
    second.run(ReturnMode.PASS)
    assert second.visits == 1


def test_mode_1_goes_on_behind_the_node_examined() -> None:
    interpreter = chain((1, 2), [form(4)] * 3, [("arm_stream_filter", b"", 0)] * 2).interpreter()
    first = interpreter.state.graph.node_positions()[1] - interpreter.state.graph.node_list_word
    links = []
    for _ in range(3):
        interpreter.run(ReturnMode.NODE)
        links.append(interpreter.link)
    assert links == [first, 0, first]


def test_a_node_without_a_frame_or_without_room_is_not_called() -> None:
    interpreter = chain((1, 2), [form(4), form(4)], [("arm_stream_filter", b"", 0)]).interpreter()
    interpreter.attach(1, Source(bytes(12)))
    interpreter.run()
    interpreter.run()
    assert interpreter.entries[0].counts.calls == 1


def test_reset_and_stop_reach_nodes_of_other_cores_too() -> None:
    mine = Mine()
    interpreter = mine_graph(processor=2).interpreter({"mine": lambda: mine}, names=NAMES)
    interpreter(Command.STOP)
    assert mine.stopped
    (setup,) = mine.setups
    assert [each.frame_bytes for each in (*setup.inputs, *setup.outputs)] == [8, 1]


def test_a_node_that_raises_is_not_called_again_until_reset() -> None:
    class Broken(Mine):
        def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
            self.calls += 1
            raise ValueError("no")

    broken, lines = Broken(), list[str]()
    interpreter = mine_graph().interpreter({"mine": lambda: broken}, names=NAMES, log=lines.append)
    interpreter.attach(1, Source(bytes(16)))
    interpreter.run()
    interpreter.run()
    assert (broken.calls, lines) == (1, ["mine 0 failed, it is not called again: ValueError: no"])
    interpreter.reset()
    interpreter.attach(1, Source(bytes(8)))
    interpreter.run()
    assert interpreter.entries[0].counts.calls == 1


@pytest.mark.parametrize("moved", [Moved((9,), (0,)), Moved((0,), (9,)), Moved((-1,), (0,)), Moved((), (0,))])
def test_a_node_that_claims_the_impossible_fails(moved: Moved) -> None:
    class Liar(Mine):
        def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
            return moved

    interpreter = mine_graph().interpreter({"mine": Liar}, names=NAMES)
    interpreter.attach(1, Source(bytes(8)))
    interpreter.run()
    assert interpreter.entries[0].failed


def test_nodes_that_feed_each_other_do_not_hold_a_run_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scheduler.MOST_PASSES == 100_000
    monkeypatch.setattr(scheduler, "MOST_PASSES", 1000)
    builder = GraphBuilder()
    there, back = builder.arc(form(4), form(4)), builder.arc(form(4), form(4))
    builder.io(1, there)
    builder.node("arm_stream_filter", [there], [back])
    builder.node("arm_stream_filter", [back], [there])
    lines: list[str] = []
    interpreter = builder.interpreter(log=lines.append)
    interpreter.ports[0].acknowledge(bytes(4))
    assert interpreter.run()
    assert lines == ["a RUN ended after 1000 passes: nodes still move data"]


def test_a_dead_lock_is_warned_of_with_a_factor_that_is_enough() -> None:
    builder = GraphBuilder()
    builder.io(1, builder.arc(form(100), form(70)))
    lines: list[str] = []
    builder.interpreter(log=lines.append)
    assert lines == [
        (
            "warning: arc 0 of 100 bytes can dead-lock between frames of 100 and 70: "
            "arc_jitter_ctrl 1.6 is enough"
        )
    ]


def test_a_node_that_is_not_built_is_refused() -> None:
    with pytest.raises(GraphError, match="arm_stream_mixer cannot run here"):
        chain((1, 2), [form(4)] * 2, [("arm_stream_mixer", b"", 0)]).interpreter()


def test_a_processor_that_the_graph_does_not_allow_is_refused() -> None:
    state = GraphState(chain((1, 2), [form(4)] * 2, [("arm_stream_filter", b"", 0)]).build())
    with pytest.raises(GraphError, match="allows processors 0x01, not 2"):
        Interpreter(state, Registry(), identity=Identity(processor=2))


def test_time_stamps_before_another_node_than_a_converter_are_refused() -> None:
    with pytest.raises(GraphError, match="arm_stream_filter 0: its input has time-stamps"):
        chain((1, 2), [form(4, time_stamp=1)] * 2, [("arm_stream_filter", b"", 0)]).interpreter()


def test_more_memory_than_a_graph_may_have_is_refused() -> None:
    builder = GraphBuilder()
    builder.arc(form(0x3FFFF0), form(4))
    builder.arcs = [replace(builder.arcs[0], bank=bank) for bank in range(20)]
    with pytest.raises(
        GraphError, match=f"the graph wants {20 * 0x3FFFF0} bytes of memory, at most {MOST_MEMORY}"
    ):
        GraphState(builder.build())


def test_a_warm_boot_keeps_the_retention_memory_of_a_graph_that_ran_before() -> None:
    builder = GraphBuilder()
    arcs = builder.arc(form(640), form(640)), builder.arc(form(2), form(2))
    builder.io(1, arcs[0])
    builder.io(2, arcs[1], tx=True)
    builder.node("sigp_stream_detector", [arcs[0]], [arcs[1]], preset=5, segments=(56, 32))
    first = builder.interpreter()
    first.attach(1, Source(golden_audio()))
    first.attach(2, Sink())
    first.run()
    word = first.entries[0].word
    floor, peak = first.read_parameter(word, 0), first.read_parameter(word, 1)
    second = Interpreter(GraphState(builder.build(), first.state.retained()), Registry())
    second.reset(warm_boot=True)
    assert (second.read_parameter(word, 0), second.read_parameter(word, 1)) == (floor, peak)
    second.reset()
    assert second.read_parameter(word, 0) != floor


def test_a_parameter_goes_to_the_node_that_is_named_by_its_word() -> None:
    interpreter = chain((1, 2), [form(4), form(2)], [("sigp_stream_detector", b"", 3)]).interpreter()
    word = interpreter.entries[0].word
    interpreter.set_parameter(word, 4, b"\x22")
    with pytest.raises(GraphError, match="no node begins at word 3"):
        interpreter.set_parameter(3, 4, b"\x22")
    with pytest.raises(GraphError, match="unknown parameter 5"):
        interpreter.set_parameter(word, 5, b"\x22")
