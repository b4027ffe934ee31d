"""Acknowledgements of IOs, in copy and in set mode, and flow errors."""

from collections.abc import Callable
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.addons.graph.nodes.arcs import ArcBuffer
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.run.io import ANALOG_OUT, AUDIO_OUT, AcknowledgeError, IoPort
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from tests.support.amounts import in_ci
from tests.support.models.graphs import (
    Sink,
    Source,
    chain,
    form,
    golden_audio,
    golden_graph,
    golden_runtime,
    high_pass,
)


def port(size: int, producer: int, consumer: int, **more: object) -> IoPort:
    made = IoPort(0, ArcBuffer(0, np.zeros(size, np.uint8), producer, consumer), **more)  # type: ignore[arg-type]
    made.reset()
    return made


class Asked:
    def __init__(self) -> None:
        self.times = 0

    def request(self, port: IoPort) -> None:
        self.times += 1


def test_a_partial_frame_leaves_the_transfer_running() -> None:
    io = port(4, 4, 4)
    io.driver = Asked()
    io.visit()
    io.acknowledge(b"abc")
    assert io.ongoing
    io.acknowledge(b"d")
    assert not io.ongoing


def test_a_servant_is_asked_once_for_a_transfer() -> None:
    io = port(8, 4, 4)
    asked = io.driver = Asked()
    io.visit()
    io.visit()
    assert asked.times == 1


def test_a_commander_is_not_asked() -> None:
    io = port(4, 4, 4, servant=False)
    asked = io.driver = Asked()
    io.visit()
    assert (asked.times, io.acknowledge(b"abcd")) == (0, 4)


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    io = port(4, 4, 4, servant=False)
    assert io.acknowledge(b"abcdef") == 4
    assert io.acknowledge(b"gh") == 0
    assert (io.arc.errors.overflows, io.arc.errors.overflow_bytes) == (2, 4)
    assert io.arc.readable().tobytes() == b"abcd"


def test_in_mode_1_the_oldest_frames_are_dropped() -> None:
    io = port(8, 4, 4, servant=False, fills_gaps=True)
    io.acknowledge(b"aaaabbbb")
    assert io.acknowledge(b"cccc") == 4
    assert io.arc.readable().tobytes() == b"bbbbcccc"
    assert (io.arc.errors.overflows, io.arc.errors.overflow_bytes) == (1, 4)


def test_an_underflow_is_short_in_mode_0() -> None:
    io = port(8, 4, 4, transmits=True)
    io.arc.buffer[:2] = 7
    io.arc.produce(2)
    target = bytearray(b"xxxx")
    assert io.acknowledge(target) == 2
    assert target == b"\x07\x07xx"
    assert (io.arc.errors.underflows, io.arc.errors.underflow_bytes) == (1, 2)


@pytest.mark.parametrize(
    ("domain", "filler"), [(AUDIO_OUT, b"\x07\x08"), (ANALOG_OUT, b"\x07\x08"), (0, b"\0\0")]
)
def test_an_underflow_is_filled_in_mode_1(domain: int, filler: bytes) -> None:
    io = port(8, 4, 4, transmits=True, fills_gaps=True, domain=domain)
    io.arc.buffer[:2] = (7, 8)
    io.arc.produce(2)
    target = bytearray(4)
    assert io.acknowledge(target) == 4
    assert target == b"\x07\x08" + filler
    assert io.acknowledge(target) == 4
    assert target == filler * 2


def test_in_set_mode_an_input_takes_the_driver_s_memory_without_a_copy() -> None:
    io = port(4, 4, 4, copies=False)
    memory = np.arange(8, dtype=np.uint8)
    assert io.acknowledge(memory) == 8
    assert np.shares_memory(io.arc.readable(), memory)
    assert (io.arc.read, io.arc.write, io.arc.size, io.ongoing) == (0, 8, 8, False)


def test_in_set_mode_nothing_moves_in_the_driver_s_memory() -> None:
    io = port(4, 4, 4, copies=False)
    memory = np.arange(8, dtype=np.uint8)
    io.acknowledge(memory)
    io.arc.consume(4)
    assert io.arc.readable().tobytes() == b"\4\5\6\7"
    assert memory.tobytes() == bytes(range(8))


def test_in_set_mode_an_input_is_asked_again_when_it_is_empty() -> None:
    io = port(4, 4, 4, copies=False)
    asked = io.driver = Asked()
    io.visit()
    io.acknowledge(bytes(4))
    io.visit()
    assert asked.times == 1
    io.arc.consume(4)
    io.visit()
    assert asked.times == 2


def test_in_set_mode_an_output_goes_on_in_new_memory() -> None:
    io = port(4, 4, 4, copies=False, transmits=True)
    io.arc.writable()[:] = 5
    io.arc.produce(4)
    memory = np.zeros(4, np.uint8)
    assert io.acknowledge(memory) == 4
    assert (io.arc.read, io.arc.write, io.ongoing) == (0, 0, False)
    assert np.shares_memory(io.arc.writable(), memory)


@pytest.mark.parametrize(
    ("more", "data", "size"),
    [
        ({}, b"ab", 3),
        ({}, b"ab", -1),
        ({}, None, 4),
        ({"copies": False}, None, 4),
        ({"transmits": True}, bytes(4), 4),
        ({"transmits": True, "copies": False}, None, None),
        ({"transmits": True, "copies": False}, bytearray(3), None),
        ({"transmits": True, "copies": False}, bytes(4), None),
    ],
)
def test_a_wrong_acknowledgement_is_refused(
    more: dict[str, bool], data: bytes | None, size: int | None
) -> None:
    io = port(4, 4, 4, **more)
    io.arc.produce(0)
    with pytest.raises(AcknowledgeError):
        io.acknowledge(data, size)


def cut_by(numbers: list[int]) -> Callable[[int], list[int]]:
    """Cut frames at lengths that the numbers give in turn."""
    at = cycle(numbers)

    def cuts(size: int) -> list[int]:
        parts = []
        while size:
            part = min(size, next(at))
            parts.append(part)
            size -= part
        return parts

    return cuts


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@given(lengths, lengths)
def test_any_division_of_acknowledgements_gives_the_golden_output(
    taken: list[int], given_: list[int]
) -> None:
    interpreter = Interpreter(GraphState(golden_graph("c1_filter_only")), Registry())
    interpreter.reset()
    sink = Sink(cut_by(given_))
    interpreter.attach(1, Source(golden_audio()[: 64 * 40], cut_by(taken)))
    interpreter.attach(9, sink)
    interpreter.run()
    assert bytes(sink.data) == golden_runtime("c1_out.raw").read_bytes()[: 64 * 40]


@settings(max_examples=in_ci(100, every_day=10))
@given(st.lists(st.integers(1, 700), min_size=1, max_size=8))
def test_acknowledgements_that_come_later_give_the_same_output(sizes: list[int]) -> None:
    def run(parts: list[int]) -> bytes:
        frame = form(64)
        interpreter = chain(
            (1, 9),
            [frame, form(64), form(2)],
            [("arm_stream_filter", high_pass(), 1), ("sigp_stream_detector", b"", 5)],
        ).interpreter()
        sink = Sink()
        interpreter.attach(9, sink)
        data = golden_audio()[: 64 * 60]
        source = interpreter.ports[0]
        at, turn = 0, 0
        while at < len(data):
            interpreter.run()
            part = min(parts[turn % len(parts)], source.arc.free, len(data) - at)
            source.acknowledge(data[at : at + part])
            at += part
            turn += 1
        interpreter.run()
        return bytes(sink.data)

    assert run(sizes) == run([64])
