"""Plans with scratch, and plans without sharing."""

import pytest

from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.plan import plan_apart, plan_network, scratch_buffers
from aisrv.model import Model, Tensor
from aisrv.model.arena_plan import Scratch, plan_arena
from aisrv.model.reader import read_model
from tests.support.models import networks
from tests.support.models.scratch_backend import Scratchy, digits_model


def test_scratch_is_asked_for_with_the_operators_shapes() -> None:
    # 3x3 taps of 1 and of 16 channels; 10 classes.
    assert scratch_buffers(digits_model(), Scratchy()) == [
        Scratch(0, 48),
        Scratch(2, 576),
        Scratch(5, 40),
    ]


def test_without_scratch_the_plan_is_that_of_tflm() -> None:
    assert plan_network(digits_model(), ReferenceBackend()) == plan_arena(digits_model())


def test_scratch_lives_while_its_operator_runs_and_shares_no_byte_with_what_lives_then() -> None:
    model = digits_model()
    plan = plan_network(model, Scratchy())
    extra = plan.allocations[-3:]
    count = len(model.tensors)
    assert [(each.tensor, each.size, each.first, each.last) for each in extra] == [
        (count, 48, 1, 1),
        (count + 1, 576, 3, 3),
        (count + 2, 48, 6, 6),  # 40 bytes, rounded up to 16
    ]
    for one in plan.allocations:
        for other in plan.allocations:
            if one.tensor < other.tensor and one.first <= other.last and other.first <= one.last:
                assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset


def test_scratch_is_placed_behind_tensors_of_its_size() -> None:
    # Of equals the later goes first, and scratch is behind all tensors (greedy_memory_planner.cc).
    model = read_model(networks.adding_network(2, 1, 16))
    plan = plan_arena(model, [Scratch(0, 16)])
    assert {each.tensor: each.offset for each in plan.allocations} == {3: 0, 2: 16, 1: 32, 0: 48}


def test_apart_nothing_shares() -> None:
    plan = plan_apart(digits_model(), Scratchy())
    ends = [each.offset + each.size for each in plan.allocations]
    assert [each.offset for each in plan.allocations] == [0, *ends[:-1]]
    assert plan.head == ends[-1] == sum(each.size for each in plan.allocations)


def test_convolution_without_four_dimensions_has_no_plan() -> None:
    model = digits_model()
    flat = Model(
        model.version,
        "",
        tuple(
            Tensor(each.name, (64,), each.type, each.quantization, index=each.index) for each in model.tensors
        ),
        model.operators,
        model.inputs,
        model.outputs,
    )
    with pytest.raises(NetworkError, match=r"operator 0 \(CONV_2D\) needs .* four dimensions"):
        plan_network(flat, ReferenceBackend())
