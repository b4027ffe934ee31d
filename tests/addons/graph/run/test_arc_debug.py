"""What arcs do with debug registers at each write."""

from dataclasses import replace

import numpy as np
import pytest

from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from tests.support.models.graphs import GraphBuilder, form


def watched(command: int, register: int = 3) -> Interpreter:
    builder = GraphBuilder()
    builder.io(1, builder.arc(form(8), form(8), 4.0, debug_command=command, debug_register=register))
    builder.io(2, builder.arc(form(8), form(8)), tx=True)
    graph = builder.build()
    graph = replace(graph, header=replace(graph.header, arc_debug_words=32), arc_debug=(0,) * 32)
    interpreter = Interpreter(GraphState(graph), Registry(), clock=lambda: 1.5)
    interpreter.reset()
    return interpreter


def write(interpreter: Interpreter, *samples: int) -> int:
    interpreter.ports[0].acknowledge(np.array(samples, "<i2").tobytes())
    return interpreter.state.debug_registers[3]


def test_samples_are_added() -> None:
    interpreter = watched(1)
    assert [write(interpreter, 1, 2), write(interpreter, 3)] == [2, 3]


def test_writes_are_counted() -> None:
    interpreter = watched(4)
    assert [write(interpreter, 1, 2), write(interpreter, 3)] == [1, 2]


def test_bits_are_set_and_cleared() -> None:
    for command, first, then in ((3, 5 << 59, 5 << 59 | 1 << 5), (2, 5 << 59 | 0xFF, 5 << 59 | 0xDF)):
        interpreter = watched(command)
        interpreter.state.debug_registers[3] = first
        assert write(interpreter, 1) == then


def test_the_time_is_taken() -> None:
    assert write(watched(9), 1) == 3 << 27


@pytest.mark.parametrize(
    ("command", "first", "then"), [(10, 900, 900 - 4), (12, -900, -900 + 3), (13, 3, 3), (11, 0, -1)]
)
def test_extremes_are_taken_at_once_and_left_slowly(command: int, first: int, then: int) -> None:
    interpreter = watched(command)
    got = [write(interpreter, -900, 900), write(interpreter, -5, -4)]
    assert [(value ^ 1 << 63) - (1 << 63) for value in got] == [first, then]


def test_callbacks_get_the_arc_and_the_bytes() -> None:
    interpreter = watched(7)
    calls: list[tuple[int, int, int]] = []
    interpreter.callbacks[1] = lambda *values: calls.append(values)
    write(interpreter, 1, 2)
    assert calls == [(0, 4, 0)]


def test_a_frame_is_copied_when_it_has_changed() -> None:
    interpreter = watched(14)
    interpreter.state.debug_registers[3] = 1
    write(interpreter, 1)
    write(interpreter, 1)
    write(interpreter, 2)
    target = interpreter.state.arcs[1]
    assert target is not None
    assert target.readable().view("<i2").tolist() == [1, 2]


@pytest.mark.parametrize(("command", "register"), [(5, 3), (8, 3), (31, 3), (1, 16)])
def test_what_there_is_not_is_refused(command: int, register: int) -> None:
    with pytest.raises(GraphError):
        watched(command, register)


def test_a_starving_arc_is_read_again() -> None:
    interpreter = watched(15)
    arc = interpreter.ports[0].arc
    write(interpreter, 1, 2, 3, 4)
    assert arc.has_frame
    arc.consume(8)
    write(interpreter, 5, 6)  # half a frame: nothing whole is left to read
    assert (arc.read, np.frombuffer(arc.readable()[:12].tobytes(), "<i2").tolist()) == (0, [1, 2, 3, 4, 5, 6])


def test_an_arc_with_a_frame_is_not_read_again() -> None:
    interpreter = watched(15)
    arc = interpreter.ports[0].arc
    write(interpreter, 1, 2, 3, 4)
    arc.consume(8)
    write(interpreter, 5, 6, 7, 8)
    assert arc.read == 8
