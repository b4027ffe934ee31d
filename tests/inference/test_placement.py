"""What a model needs of the arena, and the rule of where models and tensors go."""

import struct

import pytest
from msgspec.structs import replace

from aisrv.inference.errors import ModelError
from aisrv.inference.placement import (
    ArenaNeed,
    MemoryShortage,
    arena_need,
    check_tensor_counts,
    model_shortage,
    place_model,
)
from aisrv.model import Metadata
from aisrv.model.arena_plan import OFFLINE_PLAN
from aisrv.model.errors import LoadResult
from aisrv.protocol.memory_map import MemoryMap, MemoryRegion, ModelMemory
from tests.support.models.arena_models import TFLM, chain, reference_model


@pytest.mark.parametrize(
    "name", ["kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8"]
)
def test_total_of_the_host_is_2_to_10_percent_above_the_device(name: str) -> None:
    assert 1.02 < sum(TFLM[name]) / arena_need(reference_model(name)).total < 1.10


def test_need_is_head_and_tail() -> None:
    assert arena_need(chain(16, 16)) == ArenaNeed(head=32, tail=512)
    assert arena_need(chain(16, 16)).total == 544


def test_broken_plan_of_the_model_itself_is_a_model_error() -> None:
    model = replace(chain(16), metadata=(Metadata(OFFLINE_PLAN, struct.pack("<3Ii", 1, 0, 1, -2)),))
    with pytest.raises(ModelError, match="has the offset -2") as caught:
        arena_need(model)
    assert caught.value.load_result is LoadResult.OTHER


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
