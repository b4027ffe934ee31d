"""SLICE and STRIDED_SLICE beside TensorFlow Lite Micro, and what is refused."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.kernels.network.errors import NetworkError
from tests.support.amounts import in_ci
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded, run_network


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
    with pytest.raises(NetworkError, match=message):
        loaded(slice_model((3, 4), begin, size, (1, 1)))


class Dimension(NamedTuple):
    """One dimension of STRIDED_SLICE, with a bit of each mask."""

    extent: int
    begin: int
    end: int
    stride: int
    begin_mask: bool = False
    end_mask: bool = False
    shrinks: bool = False

    @property
    def elements(self) -> range:
        """Those that are taken, as `numpy` takes them; of a dimension that vanishes, the first."""
        begin, end = None if self.begin_mask else self.begin, None if self.end_mask else self.end
        taken = range(self.extent)[begin : None if self.shrinks else end : self.stride]
        return taken[:1] if self.shrinks else taken


def strided_slice_model(dimensions: Sequence[Dimension]) -> bytes:
    def mask(name: str) -> int:
        return sum(getattr(each, name) << number for number, each in enumerate(dimensions))

    return single(
        BuiltinOperator.STRIDED_SLICE,
        [
            tensor("in", [each.extent for each in dimensions]),
            constant("begin", [each.begin for each in dimensions]),
            constant("end", [each.end for each in dimensions]),
            constant("strides", [each.stride for each in dimensions]),
        ],
        [tensor("out", [len(each.elements) for each in dimensions if not each.shrinks])],
        {
            "begin_mask": mask("begin_mask"),
            "end_mask": mask("end_mask"),
            "shrink_axis_mask": mask("shrinks"),
        },
    )


drawn_dimensions = st.builds(
    Dimension,
    st.integers(1, 5),
    st.integers(-6, 5),
    st.integers(-6, 6),
    st.sampled_from([1, 2, 3, -1, -2]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
).filter(lambda each: len(each.elements) > 0 and (each.stride > 0 or not each.shrinks))


@settings(FEW, max_examples=in_ci(200, every_day=40))
@given(st.lists(drawn_dimensions, min_size=1, max_size=4))
def test_strided_slice(dimensions: list[Dimension]) -> None:
    data = random_int8([each.extent for each in dimensions])
    expected = np.ascontiguousarray(data[np.ix_(*(list(each.elements) for each in dimensions))])
    assert agree(strided_slice_model(dimensions), data) == [expected.tobytes()]


def test_a_begin_mask_wins_where_its_dimension_vanishes() -> None:
    data = np.array([10, 11, 12], np.int8)
    model = strided_slice_model([Dimension(3, 2, 3, 1, begin_mask=True, shrinks=True)])
    assert agree(model, data) == [bytes([10])]


@pytest.mark.parametrize(
    ("dimension", "message"),
    [
        (Dimension(3, 3, 4, 1, shrinks=True), "begin 3 is outside of dimension 0 of 3"),
        (Dimension(3, 1, 0, -1, shrinks=True), "dimension 0 vanishes, and its stride is -1, below 0"),
        (Dimension(3, 1, 2, 0, shrinks=True), r"strides are \[0\]: none may be 0"),
    ],
)
def test_slices_of_nothing_are_refused(dimension: Dimension, message: str) -> None:
    model = single(
        BuiltinOperator.STRIDED_SLICE,
        [
            tensor("in", (dimension.extent,)),
            *(constant(name, [getattr(dimension, name)]) for name in ("begin", "end", "stride")),
        ],
        [tensor("out", ())],
        {"shrink_axis_mask": 1},
    )
    with pytest.raises(NetworkError, match=message):
        loaded(model)


@pytest.mark.parametrize("mask", ["ellipsis_mask", "new_axis_mask", "offset"])
def test_masks_that_tflm_leaves_out_are_refused(mask: str) -> None:
    model = single(
        BuiltinOperator.STRIDED_SLICE,
        [tensor("in", (3,)), *(constant(f"c{number}", [1]) for number in range(3))],
        [tensor("out", (1,))],
        {mask: 1},
    )
    with pytest.raises(NetworkError, match="ellipses, new axes and ends as offsets are not supported"):
        loaded(model)


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
    network = loaded(gather((3,), (1,), (1,), 0))
    data = random_int8((3,))
    with pytest.raises(KernelError, match=f"indices from {place} to {place}, there are 3"):
        run_network(network, [data, np.array([place], np.int32)])
    assert run_network(network, [data, np.array([2], np.int32)]) == [data[2:].tobytes()]


def test_a_constant_index_that_is_no_place_is_refused_at_load() -> None:
    model = single(
        BuiltinOperator.GATHER, [tensor("in", (3,)), constant("places", [4])], [tensor("out", (1,))], {}
    )
    with pytest.raises(NetworkError, match=r"operator 0 \(GATHER\): GATHER has indices from 4 to 4"):
        loaded(model)


def test_batches_that_differ_are_refused() -> None:
    with pytest.raises(NetworkError, match="batch_dims is 1"):
        loaded(gather((2, 3), (3, 1), (2, 1), 1, 1))
