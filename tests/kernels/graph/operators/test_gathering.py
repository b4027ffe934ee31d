"""GATHER beside TensorFlow Lite Micro, and indices that are not places."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.kernels.errors import KernelError
from aisrv.kernels.graph.errors import GraphError
from tests.support.graph_runs import FEW, agree, loaded, run_graph
from tests.support.models import constant, random_int8, single, tensor

I32 = TensorType.INT32


def gather(
    shape: tuple[int, ...], places: tuple[int, ...], out: tuple[int, ...], axis: int, batch: int = 0
) -> bytes:
    return single(
        BuiltinOperator.GATHER,
        [tensor("in", shape), tensor("places", places, kind=I32)],
        [tensor("out", out)],
        {"axis": axis, "batch_dims": batch},
    )


@FEW
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple),
    st.integers(0, 2),
    st.integers(0, 99),
)
def test_gather(shape: tuple[int, ...], places: tuple[int, ...], axis: int, seed: int) -> None:
    axis = min(axis, len(shape) - 1)
    numbers = np.random.default_rng(seed).integers(0, shape[axis], places, dtype=np.int32)
    data = random_int8(shape, seed)
    expected = np.take(data, numbers, axis)
    model = gather(shape, places, expected.shape, axis)
    assert agree(model, data, numbers) == [expected.tobytes()]


@FEW
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_gather_within_batches(batch: int, extent: int, count: int, seed: int) -> None:
    shape, places = (batch, extent, 2), (batch, count)
    numbers = np.random.default_rng(seed).integers(0, extent, places, dtype=np.int32)
    model = gather(shape, places, (batch, count, 2), 1, 1)
    agree(model, random_int8(shape, seed), numbers)


@pytest.mark.parametrize("batch", [1, 2, -1])
def test_dimensions_between_the_batch_and_the_axis_stay(batch: int) -> None:
    shape = (2, 3, 4, 2)
    places = (2, 3) if batch == 1 else (2, 3, 3)
    numbers = np.random.default_rng(1).integers(0, 4, places, dtype=np.int32)
    agree(gather(shape, places, (2, 3, 3, 2), 2, batch), random_int8(shape), numbers)


@pytest.mark.parametrize("place", [-1, 3, 1 << 30])
def test_an_index_that_is_no_place_ends_the_run_alone(place: int) -> None:
    graph = loaded(gather((3,), (1,), (1,), 0))
    data = random_int8((3,))
    with pytest.raises(KernelError, match=f"indices from {place} to {place}, there are 3"):
        run_graph(graph, [data, np.array([place], np.int32)])
    assert run_graph(graph, [data, np.array([2], np.int32)]) == [data[2:].tobytes()]


def test_a_constant_index_that_is_no_place_is_refused_at_load() -> None:
    model = single(
        BuiltinOperator.GATHER, [tensor("in", (3,)), constant("places", [4])], [tensor("out", (1,))], {}
    )
    with pytest.raises(GraphError, match=r"operator 0 \(GATHER\): GATHER has indices from 4 to 4"):
        loaded(model)


def test_batches_that_differ_are_refused() -> None:
    with pytest.raises(GraphError, match="batch_dims is 1"):
        loaded(gather((2, 3), (3, 1), (2, 1), 1, 1))
