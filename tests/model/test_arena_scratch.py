"""Scratch memory of TFLM's kernels: sizes by hand; `test_arena_plan_tflm.py` compares with TFLM itself."""

import pytest
from flatbuffers import flexbuffers
from msgspec.structs import replace

from aisrv.inference.errors import ModelError
from aisrv.inference.placement import arena_need
from aisrv.model import Model, ModelFileError, Operator, TensorType
from aisrv.model.arena_scratch import operator_scratch, tflm_scratch
from aisrv.model.reader import read_model
from aisrv.model.values import Tensor
from tests.support.models import scratch_networks
from tests.support.peers import tflite_micro_models


def model_of(name: str, inputs: tuple[Tensor, ...], output: Tensor, options: bytes | None = None) -> Model:
    """One operator; `options` makes it a custom one."""
    tensors = tuple(replace(tensor, index=index) for index, tensor in enumerate((*inputs, output)))
    operator = Operator(
        0,
        name,
        tuple(range(len(inputs))),
        (len(inputs),),
        is_custom=options is not None,
        custom_options=options or b"",
    )
    return Model(3, "", tensors, (operator,), (0,), (len(inputs),))


def sizes(model: Model, pointer: int = 4) -> list[int]:
    return operator_scratch(model, model.operators[0], pointer=pointer)


def tensor(*shape: int, kind: TensorType = TensorType.INT8) -> Tensor:
    return Tensor("t", shape, kind)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(TensorType.INT8, [28, 16, 8]), (TensorType.INT16, [28, 16, 8]), (TensorType.FLOAT32, [16, 8])],
)
def test_mean_of_four_dimensions_over_two(kind: TensorType, expected: list[int]) -> None:
    axes = tensor(2, kind=TensorType.INT32)
    assert sizes(model_of("MEAN", (tensor(1, 5, 5, 7, kind=kind), axes), tensor(1, 7, kind=kind))) == expected


@pytest.mark.parametrize(
    ("kind", "bias", "expected"),
    [
        (TensorType.INT8, TensorType.INT32, [4 * 48]),
        (TensorType.INT16, TensorType.INT64, [8 * 48]),
        (TensorType.INT16, TensorType.INT16, [8 * 48, 8 * 3]),
        (TensorType.FLOAT32, TensorType.FLOAT32, []),
    ],
)
def test_transposed_convolution(kind: TensorType, bias: TensorType, expected: list[int]) -> None:
    inputs = (
        tensor(4, kind=TensorType.INT32),
        tensor(3, 2, 2, 1),
        tensor(1, 2, 2, 1, kind=kind),
        tensor(3, kind=bias),
    )
    assert sizes(model_of("TRANSPOSE_CONV", inputs, tensor(1, 4, 4, 3, kind=kind))) == expected


def test_detection_of_10_boxes_in_3_classes() -> None:
    options = bytes(flexbuffers.Dumps({"max_detections": 4, "num_classes": 3}))
    inputs = tuple(tensor(*shape, kind=TensorType.FLOAT32) for shape in ((1, 10, 4), (1, 10, 3), (10, 4)))
    model = model_of("TFLite_Detection_PostProcess", inputs, tensor(1, 4, 4), options)
    assert sizes(model) == [10, 160, 120, 40, 40, 160, 160, 40, 160, 160, 160]


@pytest.mark.parametrize(("pointer", "expected"), [(4, [12]), (8, [24])])
def test_sum_of_many_keeps_a_pointer_to_each(pointer: int, expected: list[int]) -> None:
    assert sizes(model_of("ADD_N", (tensor(4),) * 3, tensor(4)), pointer) == expected


def test_lstm_has_four_gates_of_the_size_of_its_cell_state() -> None:
    model = read_model(tflite_micro_models.model_bytes("trained_lstm_int8"))
    assert [scratch.size for scratch in tflm_scratch(model)] == [40] * 4  # 20 units of 16 bits


def test_weights_of_8_bits_need_none() -> None:
    assert sizes(model_of("CONV_2D", (tensor(1, 2, 2, 4), tensor(2, 1, 1, 4)), tensor(1, 2, 2, 2))) == []


def test_custom_operator_with_the_name_of_a_builtin_asks_for_nothing() -> None:
    model = model_of("MEAN", (tensor(1, 4), tensor(1)), tensor(1, 1), b"")
    assert sizes(model) == []


@pytest.mark.parametrize("operator", scratch_networks.NETWORKS)
def test_operator_that_lacks_tensors_asks_for_nothing_and_does_no_harm(operator: str) -> None:
    model = read_model(scratch_networks.network(operator, 0))
    for place, each in enumerate(model.operators):
        for change in ({"inputs": ()}, {"inputs": (-1,) * len(each.inputs)}, {"outputs": ()}):
            operators = list(model.operators)
            operators[place] = replace(each, **change)
            tflm_scratch(replace(model, operators=tuple(operators)))


@pytest.mark.parametrize("operator", scratch_networks.NETWORKS)
def test_tensors_without_dimensions_do_no_harm(operator: str) -> None:
    model = read_model(scratch_networks.network(operator, 0))
    flat = tuple(replace(each, shape=()) for each in model.tensors)
    tflm_scratch(replace(model, tensors=flat))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (b"", ": its options cannot be read: "),
        (b"\x01", ": its options cannot be read: "),
        (bytes(3), ": its options cannot be read: "),
        (b"\xff" * 40, ": its options cannot be read: "),
        (bytes(flexbuffers.Dumps([1, 2])), ": its options cannot be read: "),
        (
            bytes(flexbuffers.Dumps({"max_detections": -1})),
            " has max_detections -1, which cannot be negative",
        ),
    ],
)
def test_broken_options_are_named(options: bytes, message: str) -> None:
    inputs = tuple(tensor(*shape, kind=TensorType.FLOAT32) for shape in ((1, 10, 4), (1, 10, 3), (10, 4)))
    model = model_of("TFLite_Detection_PostProcess", inputs, tensor(1, 4, 4), options)
    with pytest.raises(ModelFileError, match=rf"operator 0 \(TFLite_Detection_PostProcess\){message}"):
        tflm_scratch(model)
    with pytest.raises(ModelError, match=message):
        arena_need(model)


def test_missing_options_count_as_0() -> None:
    inputs = tuple(tensor(*shape, kind=TensorType.FLOAT32) for shape in ((1, 10, 4), (1, 10, 3), (10, 4)))
    options = bytes(flexbuffers.Dumps({"num_classes": 1}))
    model = model_of("TFLite_Detection_PostProcess", inputs, tensor(1, 4, 4), options)
    assert sizes(model) == [10, 160, 120, 40, 40, 40, 40]


def test_model_needs_the_scratch_of_its_operators() -> None:
    model = model_of("MEAN", (tensor(1, 4, 4, 100), tensor(2, kind=TensorType.INT32)), tensor(1, 1, 1, 100))
    # 1600 + 16 bytes of inputs, 112 of output; sums 400, index 16, axes 16.
    assert arena_need(model).head == 1600 + 16 + 112 + 400 + 16 + 16
