"""The rescaler's curve."""

import struct

import numpy as np
import pytest

from aisrv.addons.graph.nodes.node import NodeError, NodeSetup
from aisrv.addons.graph.nodes.rescaler import Rescaler
from aisrv.addons.graph.nodes.samples import DTYPES
from tests.support.models.graphs import FP32, S8, S16, U8, form


def ready(points: list[tuple[float, float]], source: int = S16, target: int = S16) -> Rescaler:
    node = Rescaler()
    node.reset(
        NodeSetup(
            inputs=(form(DTYPES[source].itemsize, source),), outputs=(form(DTYPES[target].itemsize, target),)
        )
    )
    node.set_parameter(0, b"".join(struct.pack("<2f", *point) for point in points))
    return node


def rescaled(node: Rescaler, samples: list[float], source: str = "<i2", target: str = "<i2") -> list[float]:
    values = np.array(samples, source)
    out = np.zeros(len(samples), target)
    node.run([values.view(np.uint8)], [out.view(np.uint8)])
    result: list[float] = out.tolist()
    return result


def test_lines_between_points_and_held_ends() -> None:
    node = ready([(-0.5, -0.5), (0.0, 0.0), (0.5, 0.25)])
    assert rescaled(node, [-32768, -16384, -3, 0, 2, 3, 8192, 32767]) == [
        -16384, -16384, -3, 0, 1, 2, 4096, 8192,
    ]  # fmt: skip


def test_values_out_of_range_saturate() -> None:
    assert rescaled(ready([(-1, -3), (1, 3)]), [32767, -32768]) == [32767, -32768]


def test_unsigned_samples_are_around_half_of_their_range() -> None:
    assert rescaled(ready([(-1, -1), (1, 1)], U8, S8), [0, 128, 255], "u1", "i1") == [-128, 0, 127]


def test_floats_are_as_they_are() -> None:
    node = ready([(0, 0), (10, 1)], FP32, FP32)
    assert rescaled(node, [5, 20], "<f4", "<f4") == [0.5, 1.0]


@pytest.mark.parametrize(
    "points",
    [[(0, 0)], [(0, 0), (0, 1)], [(1, 0), (0, 1)], [(0, float("nan")), (1, 0)], [(n, 0) for n in range(33)]],
)
def test_bad_points_are_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(NodeError):
        ready(points)
