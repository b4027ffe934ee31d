"""The plan of the arena's head: by hand, and equal to TensorFlow Lite Micro's."""

import struct
from typing import Any

import numpy as np
import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aisrv.model import Model, ModelFileError, Operator, TensorType, writer
from aisrv.model.arena_plan import OFFLINE_PLAN, Allocation, plan_arena
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from tests.support.amounts import in_ci
from tests.support.models.arena_models import TFLM, chain, reference_model

INT8 = Quantization.per_tensor(0.5, 0)


def branches(offline_plan: bytes | None = None) -> Model:
    """x -> a -> b -> c = b + b -> d = b + c; the outputs are d and b. Tensor sizes 40, 64, 48, 48, 48."""

    def activation(name: str, size: int) -> Tensor:
        return Tensor(name, (1, size), TensorType.INT8, INT8)

    def weights(name: str, rows: int, columns: int) -> Tensor:
        return writer.constant_tensor(name, np.ones((rows, columns), np.int8), INT8)

    dense, add = tflite.BuiltinOperator.FULLY_CONNECTED, tflite.BuiltinOperator.ADD
    network = writer.Network(
        tensors=(
            activation("x", 40),
            weights("wa", 64, 40),
            activation("a", 64),
            weights("wb", 48, 64),
            activation("b", 48),
            activation("c", 48),
            activation("d", 48),
        ),
        operators=(
            writer.NetworkOperator(dense, ("x", "wa", writer.ABSENT), ("a",)),
            writer.NetworkOperator(dense, ("a", "wb", writer.ABSENT), ("b",)),
            writer.NetworkOperator(add, ("b", "b"), ("c",)),
            writer.NetworkOperator(add, ("b", "c"), ("d",)),
        ),
        inputs=("x",),
        outputs=("d", "b"),
        metadata={} if offline_plan is None else {OFFLINE_PLAN: offline_plan},
    )
    return read_model(bytes(network))


@pytest.mark.parametrize("name", TFLM)
def test_head_equals_tflm(name: str) -> None:
    assert plan_arena(reference_model(name)).head == TFLM[name][0]


def test_lower_bound_of_a_plan_that_is_not_the_best() -> None:
    assert plan_arena(reference_model("vww_96_int8")).lower_bound == 55_296


@pytest.mark.parametrize("name", TFLM)
def test_tensors_alive_together_do_not_overlap(name: str) -> None:
    allocations = plan_arena(reference_model(name)).allocations
    for a in allocations:
        for b in allocations:
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


def test_of_equal_sizes_the_later_goes_first() -> None:
    # By hand: a at 0; d at 0, its life misses a's; c behind d; b behind a and c; x behind a.
    # With the earlier first the head would be 160; TFLM has 144.
    plan = plan_arena(branches())
    assert plan.allocations == (
        Allocation(tensor=0, size=48, first=0, last=1, offset=64),
        Allocation(tensor=2, size=64, first=1, last=2, offset=0),
        Allocation(tensor=4, size=48, first=2, last=4, offset=96),
        Allocation(tensor=5, size=48, first=3, last=4, offset=48),
        Allocation(tensor=6, size=48, first=4, last=4, offset=0),
    )
    assert plan.head == 144


@pytest.mark.parametrize(("size", "rounded"), [(1, 16), (15, 16), (16, 16), (17, 32)])
def test_sizes_are_rounded_up_to_16(size: int, rounded: int) -> None:
    assert plan_arena(chain(size)).allocations == (Allocation(0, rounded, 0, 0, 0),)


def test_output_lives_to_the_end() -> None:
    assert [a.last for a in plan_arena(chain(16, 16, 16, 16, outputs=(1, 3))).allocations] == [1, 3, 3, 3]


def test_output_that_is_an_input_lives_throughout() -> None:
    allocation = plan_arena(chain(16, 16, outputs=(0,))).allocations[0]
    assert (allocation.first, allocation.last) == (0, 1)


def test_output_that_nothing_computes_is_there_at_the_end() -> None:
    model = chain(16, 16, 16)
    allocation = plan_arena(replace(model, operators=model.operators[:1])).allocations[2]
    assert (allocation.first, allocation.last) == (1, 1)


def test_tensor_that_is_written_twice_lives_from_the_first_time_on() -> None:
    model = chain(16, 16, 16)
    again = replace(model, operators=(*model.operators, Operator(2, "LOGISTIC", (2,), (1,))))
    assert (plan_arena(again).allocations[1].first, plan_arena(again).allocations[1].last) == (1, 3)


def test_tensor_that_is_only_read_lives_from_the_beginning() -> None:
    allocation = plan_arena(replace(chain(16, 16), inputs=())).allocations[0]
    assert (allocation.first, allocation.last) == (-1, 1)


def test_handles_of_variables_stay_outside() -> None:
    model = chain(16, 4)
    handle = replace(model, operators=(Operator(0, "VAR_HANDLE", (), (1,)),))
    assert [allocation.tensor for allocation in plan_arena(handle).allocations] == [0]


def test_tensor_that_nothing_uses_takes_its_place_all_the_same() -> None:
    model = replace(chain(16, 64), operators=(), outputs=(0,))
    assert plan_arena(model).allocations[1] == Allocation(1, 64, -1, -1, 0)
    assert plan_arena(model).head == 64
    assert plan_arena(model).lower_bound == 16


@pytest.mark.parametrize(
    "change", [{"data": bytes(64)}, {"is_sparse": True}, {"is_variable": True}, {"shape": (0,)}]
)
def test_constants_variables_and_empty_tensors_stay_outside(change: dict[str, Any]) -> None:
    model = chain(16, 64)
    model = replace(model, tensors=(model.tensors[0], replace(model.tensors[1], **change)))
    assert [allocation.tensor for allocation in plan_arena(model).allocations] == [0]


def test_model_without_tensors_needs_no_head() -> None:
    model = Model(3, "", (), (), (), ())
    assert plan_arena(model).head == 0
    assert plan_arena(model).lower_bound == 0


def offline(*offsets: int, count: int | None = None) -> bytes:
    return struct.pack(f"<3I{len(offsets)}i", 1, 0, len(offsets) if count is None else count, *offsets)


def test_offline_offset_is_kept_and_planned_around() -> None:
    # By hand, a is fixed at 32; TFLM's head for this file is 144 as well.
    plan = plan_arena(branches(offline(-1, -1, 32, -1, -1, -1, -1)))
    assert [allocation.offset for allocation in plan.allocations] == [96, 32, 96, 48, 0]
    assert plan.head == 144


@pytest.mark.parametrize(("gap", "offset"), [(48, 0), (47, 47 + 64)])
def test_gap_of_the_very_size_is_used(gap: int, offset: int) -> None:
    # x takes 48 bytes and meets only a, which is fixed.
    plan = plan_arena(branches(offline(-1, -1, gap, -1, -1, -1, -1)))
    assert plan.allocations[0].offset == offset


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (b"", "has 0 bytes, fewer than its header"),
        (bytes(11), "has 11 bytes, fewer than its header"),
        (offline(*[-1] * 6), "has 6 offsets in 36 bytes for 7 tensors"),
        (offline(*[-1] * 6, count=7), "has 7 offsets in 36 bytes for 7 tensors"),
        (offline(-1, -1, -2, -1, -1, -1, -1), "has the offset -2"),
    ],
)
def test_broken_offline_plan(plan: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        plan_arena(branches(plan))


@settings(derandomize=True, max_examples=in_ci(100, every_day=20), deadline=None)
@given(
    st.lists(st.integers(0, 600), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=12),
)
def test_any_plan_is_sound(sizes: list[int], edges: list[tuple[int, int]]) -> None:
    count = len(sizes)
    operators = tuple(
        Operator(index, "ADD", (a % count,), (b % count,)) for index, (a, b) in enumerate(edges)
    )
    plan = plan_arena(replace(chain(*sizes), operators=operators))
    assert plan.lower_bound <= plan.head <= sum(allocation.size for allocation in plan.allocations)
    for a in plan.allocations:
        for b in plan.allocations:
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
