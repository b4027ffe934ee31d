"""The filter against golden vectors, and its rules."""

import csv
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.nodes.filter import Filter
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup
from tests.support.models.graphs import FP32, GOLDEN, form


def rows() -> Iterator[dict[str, str]]:
    for name in ("filter_q15_vectors.csv", "filter_q15_vectors_unconfirmed.csv"):
        with (GOLDEN / "streams" / name).open() as file:
            yield from csv.DictReader(file)


def ready(parameters: bytes = b"", fmt: Format | None = None) -> Filter:
    fmt = fmt or form(2)
    node = Filter()
    node.reset(NodeSetup(inputs=(fmt,), outputs=(fmt,)))
    if parameters:
        node.set_parameter(0, parameters)
    return node


def block(shift: int, *stages: tuple[int, ...]) -> bytes:
    return bytes([len(stages), shift]) + b"".join(struct.pack("<5h", *stage) for stage in stages)


def filtered(node: Filter, samples: list[int]) -> list[int]:
    source = np.array(samples, "<i2")
    target = np.zeros_like(source)
    size = source.nbytes
    assert node.run([source.view(np.uint8)], [target.view(np.uint8)]) == ((size,), (size,), False)
    values: list[int] = target.tolist()
    return values


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: f"{row['coef_set']}-{row['signal']}")
def test_golden_vectors(row: dict[str, str]) -> None:
    stages = [tuple(map(int, stage.split())) for stage in row["coefficients"].split("/")]
    node = ready(block(int(row["postShift"]), *stages))
    samples = list(map(int, row["input_s16"].split()))
    assert filtered(node, samples) == list(map(int, row["output_s16"].split()))


def test_without_parameters_samples_pass() -> None:
    assert filtered(ready(), [1, -2, 32767, -32768]) == [1, -2, 32767, -32768]


def test_the_accumulator_wraps_at_32_bits_before_it_saturates() -> None:
    node = ready(block(0, (32767, 32767, 32767, 0, 0)))
    # 2 * 32767 * 32767 fits 32 bits, three times as much is negative there
    assert filtered(node, [32767] * 3)[1:] == [32767, -32768]


def test_parameters_keep_the_state_and_reset_clears_it() -> None:
    node = ready(block(0, (0, 32767, 0, 0, 0)))
    filtered(node, [1000])
    node.set_parameter(0, block(0, (0, 16384, 0, 0, 0)))
    assert filtered(node, [0]) == [500]
    node.reset(NodeSetup(inputs=(form(2),), outputs=(form(2),)))
    node.set_parameter(0, block(0, (0, 16384, 0, 0, 0)))
    assert filtered(node, [0]) == [0]


def test_channels_are_filtered_apart() -> None:
    node = ready(block(0, (0, 32767, 0, 0, 0)), form(4, channels=2))
    assert filtered(node, [100, 200, 0, 0]) == [0, 0, 99, 199]


def test_deinterleaved_channels_are_planes_of_a_frame() -> None:
    node = ready(block(0, (0, 32767, 0, 0, 0)), form(8, channels=2, planes=True))
    assert filtered(node, [100, 0, 200, 0]) == [0, 99, 0, 199]


def test_floats_are_filtered_in_float32() -> None:
    node = ready(bytes([1, 0]) + struct.pack("<5f", 0.1, 0, 0, 0.5, 0), form(4, FP32))
    source = np.array([1, 0, 0], "<f4")
    target = np.zeros_like(source)
    node.run([source.view(np.uint8)], [target.view(np.uint8)])
    tenth = np.float32(0.1)
    assert target.tolist() == [tenth, tenth * np.float32(0.5), tenth * np.float32(0.25)]


@pytest.mark.parametrize(
    "parameters", [b"\1", b"\0\0", b"\3\0" + bytes(30), b"\1\x10" + bytes(10), b"\2\0" + bytes(19)]
)
def test_bad_parameters_are_refused(parameters: bytes) -> None:
    with pytest.raises(NodeError):
        ready(parameters)


def test_formats_that_differ_are_refused() -> None:
    for other in (form(8, FP32), form(8, channels=2)):
        with pytest.raises(NodeError):
            Filter().reset(NodeSetup(inputs=(form(8),), outputs=(other,)))
