"""The arena plan against TensorFlow Lite Micro's, and the rule of where models and tensors go.

TFLM's figures are those of its `print_allocations()`, PyPI wheel tflite_micro 0.dev20261023182759.
"""

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.inference.errors import InferenceError, InvokeError, ModelError
from aisrv.inference.memory import (
    ArenaNeed,
    MemoryMap,
    MemoryRegion,
    MemoryShortage,
    ModelMemory,
    arena_need,
    check_tensor_counts,
    model_shortage,
    place_model,
)
from aisrv.model import Model, ModelFileError, Operator, TensorType, writer
from aisrv.model.arena_plan import OFFLINE_PLAN, Allocation, plan_arena
from aisrv.model.arena_tail import DEVICE_TAIL, TailLayout, estimate_tail
from aisrv.model.errors import LoadResult
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from tests.support import mlperf_tiny

TFLM = {  # head, tail
    "ad01_int8": (768, 3216),
    "kws_ref_model": (16_000, 8272),
    "pretrainedResnet_quant": (49_152, 6832),
    "str_ww_ref_model": (6656, 9984),
    "vww_96_int8": (73_728, 29_952),
}
INT8 = Quantization.per_tensor(0.5, 0)


def reference_model(name: str) -> Model:
    return read_model(mlperf_tiny.model_bytes(name))


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


def chain(*sizes: int, outputs: tuple[int, ...] | None = None) -> Model:
    """Tensors of these sizes, each computed from the previous one."""
    tensors = tuple(
        Tensor(f"t{index}", (size,), TensorType.INT8, index=index) for index, size in enumerate(sizes)
    )
    operators = tuple(Operator(k, "LOGISTIC", (k,), (k + 1,)) for k in range(len(sizes) - 1))
    last = (len(sizes) - 1,)
    return Model(3, "", tensors, operators, (0,), last if outputs is None else outputs)


# The head.


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
    with pytest.raises(ModelError, match=message) as caught:
        arena_need(branches(plan))
    assert caught.value.load_result is LoadResult.OTHER


@settings(derandomize=True, max_examples=100, deadline=None)
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


# The tail.

HOST_TAIL = TailLayout(
    fixed=488,
    pointer=8,
    eval_tensor=24,
    io_tensor=96,
    node=64,
    parameters=DEVICE_TAIL.parameters,
    state={
        "CONV_2D": 80,
        "DEPTHWISE_CONV_2D": 80,
        "FULLY_CONNECTED": 72,
        "AVERAGE_POOL_2D": 32,
        "RESHAPE": 0,
        "ADD": 60,
        "SOFTMAX": 80,
    },
)
"""TFLM's structures on the host where its figures were taken: pointers of 8 bytes."""


@pytest.mark.parametrize("name", TFLM)
def test_tail_with_the_sizes_of_the_host_equals_tflm(name: str) -> None:
    assert estimate_tail(reference_model(name), HOST_TAIL) == TFLM[name][1]


@pytest.mark.parametrize(
    "name", ["kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8"]
)
def test_total_of_the_host_is_2_to_10_percent_above_the_device(name: str) -> None:
    assert 1.02 < sum(TFLM[name]) / arena_need(reference_model(name)).total < 1.10


def test_tail_by_hand() -> None:
    # 248 fixed, 2 tensors of 12, an input and an output of 60, a node of 32 with unknown parameters of 16:
    # 440. Then pointers to input and output, 16 each, and a state of 32: 504, rounded up to 512.
    assert estimate_tail(chain(16, 16)) == 512


def test_variable_is_part_of_the_tail() -> None:
    model = chain(16, 16)
    variable = Tensor("state", (100,), TensorType.INT8, is_variable=True, index=2)
    # 12 for the tensor, 112 for its data: 504 + 124 = 628, rounded up to 640.
    assert estimate_tail(replace(model, tensors=(*model.tensors, variable))) == 640


def test_resource_variable_counts_once() -> None:
    model = chain(16, 112)
    once = replace(model, operators=(Operator(0, "ASSIGN_VARIABLE", (0, 1), ()),))
    twice = replace(once, operators=(*once.operators, Operator(1, "ASSIGN_VARIABLE", (0, 1), ())))
    assert estimate_tail(once) == 624  # 440 + 16 + 16 + 32 + 112 = 616, rounded up
    assert estimate_tail(twice) == 704  # a node of 32, parameters of 16 and a state of 32 more: 696


def test_need_is_head_and_tail() -> None:
    assert arena_need(chain(16, 16)) == ArenaNeed(head=32, tail=512)
    assert arena_need(chain(16, 16)).total == 544


# Where things go.

NEED = ArenaNeed(head=1000, tail=200)


@pytest.mark.parametrize(("size", "reserved"), [(1, 4), (3, 4), (4, 4), (511, 512), (512, 512), (513, 516)])
def test_model_in_the_arena_takes_whole_words_and_leaves_the_rest(size: int, reserved: int) -> None:
    placed = place_model(size, NEED, 4096, 0, ModelMemory.ARENA)
    assert placed == MemoryMap(4096, 0, ModelMemory.ARENA, reserved, head_bytes=1000, tail_bytes=200)
    assert placed.tensor_arena == MemoryRegion(ModelMemory.ARENA, reserved, 4096 - reserved)


def test_model_in_external_memory_leaves_the_arena_whole() -> None:
    placed = place_model(5001, NEED, 4096, 8192, ModelMemory.EXT)
    assert placed == MemoryMap(4096, 8192, ModelMemory.EXT, 5001, head_bytes=1000, tail_bytes=200)
    assert placed.tensor_arena == MemoryRegion(ModelMemory.ARENA, 0, 4096)


def test_model_and_tensors_may_fill_the_arena() -> None:
    placed = place_model(800, NEED, 2000, 0, ModelMemory.ARENA)
    assert placed.tensor_arena == MemoryRegion(ModelMemory.ARENA, 800, 1200)


def test_tensors_that_lack_a_byte() -> None:
    with pytest.raises(MemoryShortage) as caught:
        place_model(797, NEED, 1999, 0, ModelMemory.ARENA)
    assert str(caught.value) == (
        "the tensors (head 1,000, tail about 200) need 1,200 bytes of the arena: 1,199 available, 1 missing"
    )
    assert caught.value.load_result is LoadResult.TENSORS_DO_NOT_FIT


def test_tensors_do_not_go_to_external_memory() -> None:
    with pytest.raises(MemoryShortage) as caught:
        place_model(10, NEED, 1000, 10**6, ModelMemory.EXT)
    shortage = caught.value
    assert (shortage.memory, shortage.needed, shortage.available, shortage.missing) == (
        ModelMemory.ARENA,
        1200,
        1000,
        200,
    )


def test_model_larger_than_the_arena() -> None:
    with pytest.raises(MemoryShortage) as caught:
        place_model(333_285, NEED, 200_000, 0, ModelMemory.ARENA)
    assert str(caught.value) == (
        "the model needs 333,288 bytes of the arena: 200,000 available, 133,288 missing"
    )
    assert caught.value.load_result is LoadResult.OTHER


def test_model_larger_than_the_external_memory() -> None:
    with pytest.raises(
        MemoryShortage, match="the model needs 1 bytes of the external memory: 0 available, 1 missing"
    ):
        place_model(1, NEED, 4096, 0, ModelMemory.EXT)


@pytest.mark.parametrize(
    ("arena_size", "external_size", "advised"),
    [
        pytest.param(1200, 800, True, id="all fits"),
        pytest.param(1200, 799, False, id="the model lacks a byte"),
        pytest.param(1199, 800, False, id="the tensors lack a byte"),
        pytest.param(799, 800, False, id="neither has room in the arena"),
    ],
)
def test_advice_where_external_memory_would_do(arena_size: int, external_size: int, advised: bool) -> None:
    with pytest.raises(MemoryShortage) as caught:
        place_model(800, NEED, arena_size, external_size, ModelMemory.ARENA)
    assert str(caught.value).endswith("; it fits with the model in external memory") is advised


@pytest.mark.parametrize(("memory", "needed"), [(ModelMemory.ARENA, 804), (ModelMemory.EXT, 801)])
def test_shortage_of_a_model_that_was_not_read_to_its_end(memory: ModelMemory, needed: int) -> None:
    shortage = model_shortage(801, 800, memory)
    assert str(shortage) == (
        f"the model needs {needed} bytes of the {memory.value}: 800 available, {needed - 800} missing"
    )
    assert shortage.load_result is LoadResult.OTHER


@pytest.mark.parametrize(
    ("inputs", "outputs", "result", "message"),
    [
        (41, 1, LoadResult.TOO_MANY_INPUTS, "the model has 41 inputs, the device takes at most 40"),
        (1, 41, LoadResult.TOO_MANY_OUTPUTS, "the model has 41 outputs, the device takes at most 40"),
        (41, 41, LoadResult.TOO_MANY_INPUTS, "the model has 41 inputs, the device takes at most 40"),
    ],
)
def test_too_many_inputs_or_outputs(inputs: int, outputs: int, result: LoadResult, message: str) -> None:
    model = replace(chain(16), inputs=(0,) * inputs, outputs=(0,) * outputs)
    with pytest.raises(ModelError, match=message) as caught:
        check_tensor_counts(model)
    assert caught.value.load_result is result


def test_forty_inputs_and_outputs_are_allowed() -> None:
    check_tensor_counts(replace(chain(16), inputs=(0,) * 40, outputs=(0,) * 40))


# The family of errors.


def test_load_results_have_the_numbers_of_the_firmware() -> None:
    assert [result.value for result in LoadResult] == [0, 1, 2, 3, 4, 5]
    assert LoadResult(2) is LoadResult.TENSORS_DO_NOT_FIT


@pytest.mark.parametrize("kind", [ModelError, InvokeError, MemoryShortage])
def test_every_error_is_of_the_family(kind: type[Exception]) -> None:
    assert issubclass(kind, InferenceError)


def test_model_error_without_a_number_is_other() -> None:
    assert ModelError("it is broken").load_result is LoadResult.OTHER
