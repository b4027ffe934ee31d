"""Operators that make shapes, beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.network.errors import NetworkError
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded, run_network

I32 = TensorType.INT32
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize("shape", [(7,), (1, 2), (2, 3, 4, 5)])
def test_shape(shape: tuple[int, ...]) -> None:
    model = single(BuiltinOperator.SHAPE, [tensor("in", shape)], [tensor("out", (len(shape),), kind=I32)])
    data = random_int8(shape)
    assert agree(model, data) == [np.array(shape, np.int32).tobytes()]


def test_shape_in_int64_is_refused_as_in_tflm() -> None:
    model = single(
        BuiltinOperator.SHAPE, [tensor("in", (2, 3))], [tensor("out", (2,), kind=TensorType.INT64)]
    )
    with pytest.raises(NetworkError, match="is INT64, must be INT32"):
        loaded(model)


@FEW
@given(shapes, st.data())
def test_broadcast_to(shape: tuple[int, ...], data: st.DataObject) -> None:
    ones = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    source = tuple(1 if one else extent for one, extent in zip(ones, shape, strict=True))
    source = source[data.draw(st.integers(0, len(shape) - 1)) :]
    model = single(
        BuiltinOperator.BROADCAST_TO,
        [tensor("in", source), constant("shape", shape)],
        [tensor("out", shape)],
    )
    values = random_int8(source)
    assert agree(model, values) == [np.broadcast_to(values, shape).tobytes()]


def test_what_does_not_broadcast_is_refused() -> None:
    model = single(
        BuiltinOperator.BROADCAST_TO,
        [tensor("in", (3,)), constant("shape", (2, 4))],
        [tensor("out", (2, 4))],
    )
    with pytest.raises(NetworkError, match=r"of shape \[3\] does not broadcast to \[2, 4\]"):
        loaded(model)


@FEW
@given(shapes.filter(lambda shape: len(shape) < 4), st.integers(1, 3), st.integers(-4, 3))
def test_pack(shape: tuple[int, ...], count: int, axis: int) -> None:
    axis = max(-len(shape) - 1, min(len(shape), axis))
    place = axis % (len(shape) + 1)
    model = single(
        BuiltinOperator.PACK,
        [tensor(f"in{number}", shape) for number in range(count)],
        [tensor("out", (*shape[:place], count, *shape[place:]))],
        {"values_count": count, "axis": axis},
    )
    agree(model, *(random_int8(shape, seed) for seed in range(count)))


@FEW
@given(shapes.filter(lambda shape: len(shape) > 1), st.integers(0, 3), st.booleans())
def test_unpack(shape: tuple[int, ...], axis: int, is_negative: bool) -> None:
    place = min(axis, len(shape) - 1)
    count = shape[place]
    model = single(
        BuiltinOperator.UNPACK,
        [tensor("in", shape)],
        [tensor(f"out{number}", shape[:place] + shape[place + 1 :]) for number in range(count)],
        {"num": count, "axis": place - len(shape) if is_negative else place},
    )
    agree(model, random_int8(shape), outputs=count)


def test_pack_of_numbers_makes_a_vector() -> None:
    inputs = [tensor(f"in{number}", (), kind=I32) for number in range(3)]
    model = single(
        BuiltinOperator.PACK, inputs, [tensor("out", (3,), kind=I32)], {"values_count": 3, "axis": 0}
    )
    numbers = [np.array(number, np.int32) for number in (5, -7, 1 << 30)]
    assert run_network(loaded(model), numbers) == [np.array(numbers, np.int32).tobytes()]


def test_pack_of_shapes_that_differ_is_refused() -> None:
    model = single(
        BuiltinOperator.PACK,
        [tensor("one", (2,)), tensor("two", (3,))],
        [tensor("out", (2, 2))],
        {"values_count": 2},
    )
    with pytest.raises(NetworkError, match=r"has shape \[3\], expected \[2\]"):
        loaded(model)


def test_unpack_needs_an_output_for_each_part() -> None:
    model = single(
        BuiltinOperator.UNPACK, [tensor("in", (3, 2))], [tensor("out", (2,))], {"num": 1, "axis": 0}
    )
    with pytest.raises(NetworkError, match="3 elements along 0 do not make 1 outputs"):
        loaded(model)
