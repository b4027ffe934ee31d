"""The router and the split."""

import struct

import numpy as np
import pytest

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup
from aisrv.addons.graph.nodes.router import Router
from aisrv.addons.graph.nodes.split import Split
from tests.support.models.graphs import S8, form


def ready(inputs: list[Format], outputs: list[Format], *connections: tuple[int, int, int, int]) -> Router:
    node = Router()
    node.reset(NodeSetup(inputs=tuple(inputs), outputs=tuple(outputs)))
    block = struct.pack("<2b", len(inputs), len(outputs)) + b"".join(
        struct.pack("<4h", *each) for each in connections
    )
    node.set_parameter(0, block + bytes(-len(block) % 4))
    return node


def test_channels_are_exchanged_and_those_without_a_source_are_0() -> None:
    node = ready([form(8, channels=2)], [form(12, channels=3)], (0, 0, 1, 2), (0, 1, 1, 0))
    source = np.array([1, 2, 3, 4], "<i2")
    target = np.full(6, 9, "<i2")
    moved = node.run([source.view(np.uint8)], [target.view(np.uint8)])
    assert (moved.consumed, moved.produced) == ([8], [12])
    assert target.tolist() == [2, 0, 1, 4, 0, 3]


def test_the_arc_with_the_least_decides() -> None:
    node = ready([form(4), form(4)], [form(4)], (0, 0, 2, 0))
    moved = node.run([np.zeros(8, np.uint8), np.zeros(5, np.uint8)], [np.zeros(20, np.uint8)])
    assert (moved.consumed, moved.produced) == ([4, 4], [4])


def test_deinterleaved_frames_become_interleaved() -> None:
    node = ready([form(8, channels=2, planes=True)], [form(8, channels=2)], (0, 0, 1, 0), (0, 1, 1, 1))
    source = np.array([1, 2, 10, 20], "<i2")
    target = np.zeros(4, "<i2")
    node.run([source.view(np.uint8)], [target.view(np.uint8)])
    assert target.tolist() == [1, 10, 2, 20]


def test_frames_of_unequal_length_move_whole() -> None:
    node = ready(
        [form(8, channels=2, planes=True)], [form(12, channels=2, planes=True)], (0, 0, 1, 0), (0, 1, 1, 1)
    )
    target = np.zeros(6, "<i2")

    def run(samples: list[int]) -> tuple[int, int]:
        moved = node.run([np.array(samples, "<i2").view(np.uint8)], [target.view(np.uint8)])
        return moved.consumed[0], moved.produced[0]

    assert run([1, 2, 10, 20]) == (8, 0)
    assert run([3, 4, 30, 40]) == (0, 12)
    assert target.tolist() == [1, 2, 3, 10, 20, 30]
    assert run([3, 4, 30, 40]) == (8, 0)
    assert run([5, 6, 50, 60]) == (8, 12)
    assert target.tolist() == [4, 5, 6, 40, 50, 60]


@pytest.mark.parametrize(
    "connection", [(1, 0, 1, 0), (0, 2, 1, 0), (0, 0, 0, 0), (0, 0, 2, 0), (0, 0, 1, 1), (-1, 0, 1, 0)]
)
def test_connections_of_channels_that_are_not_there_are_refused(
    connection: tuple[int, int, int, int],
) -> None:
    with pytest.raises(NodeError):
        ready([form(8, channels=2)], [form(8)], connection)


def test_samples_of_several_widths_are_refused() -> None:
    with pytest.raises(NodeError, match="several widths"):
        ready([form(8)], [form(8, S8)])


def test_a_split_copies_as_many_frames_as_all_outputs_take() -> None:
    node = Split()
    node.reset(NodeSetup(inputs=(form(4),), outputs=(form(4), form(4))))
    source = np.arange(12, dtype=np.uint8)
    one, two = np.zeros(12, np.uint8), np.zeros(9, np.uint8)
    assert node.run([source], [one, two]) == Moved((8,), (8, 8))
    assert one.tobytes() == bytes(range(8)) + bytes(4)
    assert two.tobytes() == bytes(range(8)) + b"\0"
