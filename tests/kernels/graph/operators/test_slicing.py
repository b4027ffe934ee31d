"""SLICE beside TensorFlow Lite Micro, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.kernels.graph.errors import GraphError
from tests.support.graph_runs import FEW, agree, loaded
from tests.support.models import constant, random_int8, single, tensor


def slice_model(shape: tuple[int, ...], begin: list[int], size: list[int], out: tuple[int, ...]) -> bytes:
    return single(
        BuiltinOperator.SLICE,
        [tensor("in", shape), constant("begin", begin), constant("size", size)],
        [tensor("out", out)],
    )


@FEW
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=4))
def test_slice(dimensions: list[tuple[int, int, int]]) -> None:
    shape = tuple(extent for extent, _, _ in dimensions)
    begin = [min(start, extent - 1) for extent, start, _ in dimensions]
    size = [
        each if each < 0 else max(1, min(each, extent - start))
        for (extent, _, each), start in zip(dimensions, begin, strict=True)
    ]
    data = random_int8(shape)
    expected = data[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))]
    model = slice_model(shape, begin, size, expected.shape)
    assert agree(model, data) == [np.ascontiguousarray(expected).tobytes()]


@pytest.mark.parametrize(
    ("begin", "size", "message"),
    [
        ([0, 2], [1, 3], "begin 2 and size 3 leave dimension 1 of 4"),
        ([-1, 0], [1, 1], "begin -1 and size 1 leave dimension 0 of 3"),
        ([0, 0], [-2, 1], "begin 0 and size -2 leave dimension 0 of 3"),
        ([0], [1], "has 1 begins and 1 sizes for 2 dimensions"),
    ],
)
def test_parts_outside_of_the_tensor_are_refused(begin: list[int], size: list[int], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        loaded(slice_model((3, 4), begin, size, (1, 1)))
