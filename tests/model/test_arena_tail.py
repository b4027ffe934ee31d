"""The estimate of the arena's tail: by hand, and beside TensorFlow Lite Micro's."""

import pytest
from msgspec.structs import replace

from aisrv.model import Operator, TensorType
from aisrv.model.arena_tail import DEVICE_TAIL, TailLayout, estimate_tail
from aisrv.model.values import Tensor
from tests.support.models.arena_models import TFLM, chain, reference_model

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
