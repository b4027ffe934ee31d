"""Conversions of raw types, channels, rates and layouts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.nodes.converter import Converter
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup
from aisrv.addons.graph.nodes.samples import DTYPES
from tests.support.models.graphs import FP32, S8, S16, S32, U8, form, rate_bits


def ready(source: Format, target: Format) -> Converter:
    node = Converter()
    node.reset(NodeSetup(inputs=(source,), outputs=(target,)))
    return node


def converted(source: Format, target: Format, samples: list[float], room: int = 64) -> list[float]:
    values = np.array(samples, DTYPES[source.raw])
    out = np.zeros(room, DTYPES[target.raw])
    moved = ready(source, target).run([values.view(np.uint8)], [out.view(np.uint8)])
    result: list[float] = out.view(np.uint8)[: moved.produced[0]].view(out.dtype).tolist()
    return result


def one(raw: int) -> Format:
    return form(DTYPES[raw].itemsize, raw)


@pytest.mark.parametrize(
    ("source", "target", "samples", "expected"),
    [
        (U8, S8, [0, 127, 128, 255], [-128, -1, 0, 127]),
        (S8, U8, [-128, 0, 127], [0, 128, 255]),
        (S16, S8, [0, 127, 128, -128, -129, 32767, -32768], [0, 0, 1, 0, -1, 127, -128]),
        (S8, S16, [-128, 1, 127], [-32768, 256, 32512]),
        (S16, S32, [1], [65536]),
        (S16, FP32, [-32768, 16384], [-1.0, 0.5]),
        (FP32, S16, [-1.0, 0.5, 2.0, float("nan")], [-32768, 16384, 32767, 0]),
        (FP32, U8, [-1.0, 0.0], [0, 128]),
    ],
)
def test_raw_types(source: int, target: int, samples: list[float], expected: list[float]) -> None:
    assert converted(one(source), one(target), samples) == expected


def test_mono_is_the_floor_of_the_mean() -> None:
    assert converted(form(4, channels=2), form(2), [1, 2, -1, -2, 3, 5]) == [1, -2, 4]


def test_channels_are_copies_of_one_or_0_where_missing() -> None:
    assert converted(form(2), form(6, channels=3), [7]) == [7, 7, 7]
    assert converted(form(4, channels=2), form(6, channels=3), [7, 8]) == [7, 8, 0]
    assert converted(form(6, channels=3), form(4, channels=2), [7, 8, 9]) == [7, 8]


def test_interleaving() -> None:
    assert converted(form(8, channels=2), form(8, channels=2, planes=True), [1, 10, 2, 20]) == [1, 2, 10, 20]
    assert converted(form(8, channels=2, planes=True), form(8, channels=2), [1, 2, 10, 20]) == [1, 10, 2, 20]


def test_a_time_stamp_is_stripped_from_each_frame() -> None:
    stamped = form(8, time_stamp=1, time_stamp_size=1)
    assert converted(stamped, form(4), [9, 9, 1, 2, 9, 9, 3, 4]) == [1, 2, 3, 4]


def at_rate(hertz: float) -> Format:
    return form(2, rate_bits=rate_bits(hertz))


def test_rates() -> None:
    assert converted(at_rate(16000), at_rate(8000), [0, 10, 20, 30, 40]) == [0, 20, 40]
    assert converted(at_rate(8000), at_rate(16000), [0, 10, 21]) == [0, 5, 10, 16, 21]


@given(
    st.sampled_from([(16000, 8000), (8000, 16000), (16000, 11025), (48000, 44100), (3, 7)]),
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
    st.integers(1, 9),
)
def test_any_cut_of_the_input_gives_the_same_samples(
    rates: tuple[int, int], cuts: list[int], room: int
) -> None:
    fin, fout = rates
    samples = [(37 * number * number) % 2001 - 1000 for number in range(sum(cuts))]
    node = ready(at_rate(fin), at_rate(fout))
    values, made, at = np.array(samples, "<i2"), list[int](), 0
    for cut in cuts:
        end = at + cut
        start = at
        for _ in range(200):
            out = np.zeros(room, "<i2")
            moved = node.run([values[start:end].view(np.uint8)], [out.view(np.uint8)])
            start += moved.consumed[0] // 2
            made += out[: moved.produced[0] // 2].tolist()
            if start == end and not moved.produced[0]:
                break
        assert start == end
        at = end
    expected = []
    step = Fraction(fin, fout)
    number = 0
    while number * step <= len(samples) - 1:
        low, part = divmod(number * step, 1)
        high = samples[min(int(low) + 1, len(samples) - 1)]
        expected.append(int((samples[int(low)] * (1 - part) + high * part + Fraction(1, 2)) // 1))
        number += 1
    assert made == expected


@pytest.mark.parametrize("bad", [form(8, 7), form(8, 22), form(7, channels=2, planes=True)])
def test_formats_that_it_cannot_do_are_refused(bad: Format) -> None:
    with pytest.raises(NodeError):
        ready(bad, form(8))


def test_it_makes_no_time_stamps() -> None:
    with pytest.raises(NodeError, match="time-stamps"):
        ready(form(8), form(8, time_stamp=1))
