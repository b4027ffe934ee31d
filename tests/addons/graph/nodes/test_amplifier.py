"""The amplifier's gain, slope, mute and delays."""

import struct

import numpy as np
import pytest

from aisrv.addons.graph.nodes.amplifier import Amplifier, gain_of
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup
from tests.support.models.graphs import form


def ready(slope: int = 0, gain: int = 0x805, mute: int = 0, up: int = 0, down: int = 0) -> Amplifier:
    node = Amplifier()
    node.reset(NodeSetup(inputs=(form(2),), outputs=(form(2),)))
    node.set_parameter(0, struct.pack("<BHBHH", slope, gain, mute, up, down))
    return node


def amplified(node: Amplifier, samples: list[int]) -> list[int]:
    source = np.array(samples, "<i2")
    target = np.zeros_like(source)
    node.run([source.view(np.uint8)], [target.view(np.uint8)])
    values: list[int] = target.tolist()
    return values


@pytest.mark.parametrize(
    ("code", "gain"), [(0x805, 1.0), (0x807, 0.25), (0x803, 4.0), (0x000, 0.0), (0xFF0, 63.75)]
)
def test_gains(code: int, gain: float) -> None:
    assert gain_of(code) == int(gain * (1 << 32))


def test_without_a_slope_the_gain_is_there_at_once() -> None:
    assert amplified(ready(gain=0x803), [100, -100, 10000, -10000]) == [400, -400, 32767, -32768]


def test_a_slope_halves_the_distance_with_each_sample() -> None:
    assert amplified(ready(slope=1), [1024] * 4) == [512, 768, 896, 960]


def test_the_gain_rises_by_1_at_least_until_it_is_there() -> None:
    node = ready(slope=15)
    amplified(node, [0] * 2_000_00)
    for _ in range(3):
        amplified(node, [0] * 200_000)
    assert amplified(node, [32767]) == [32767]


def test_mute_goes_to_silence() -> None:
    node = ready()
    assert amplified(node, [100]) == [100]
    node.set_parameter(3, b"\1")
    assert amplified(node, [100]) == [0]


def test_a_delay_holds_the_target() -> None:
    node = ready(up=3)
    node.reset(NodeSetup(inputs=(form(2),), outputs=(form(2),)))
    node.set_parameter(3, b"\1")
    amplified(node, [1])
    node.set_parameter(4, b"\3\0")
    node.set_parameter(3, b"\0")
    assert amplified(node, [100] * 4) == [0, 0, 100, 100]


@pytest.mark.parametrize(("tag", "data"), [(0, bytes(7)), (1, b"\x10"), (2, b"\1"), (6, b"\1"), (1, b"")])
def test_bad_parameters_are_refused(tag: int, data: bytes) -> None:
    with pytest.raises(NodeError):
        ready().set_parameter(tag, data)
