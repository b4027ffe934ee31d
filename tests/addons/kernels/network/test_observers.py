"""Observers: who is called when, with which tensors; files of tensors; times and work of operators."""

from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network, PreparedOperator
from aisrv.addons.kernels.network.observers import (
    Observer,
    TensorCopies,
    TensorFiles,
    Work,
    measure,
    observed,
    operator_work,
)
from tests.support.models.one_operator import tflm_tensors


def digits_network() -> Network:
    network = load_network(digits.model_bytes(), find_backend("numpy"))
    set_image(network)
    return network


def set_image(network: Network, number: int = 0) -> None:
    image, _ = digits.test_images()[number]
    network.inputs[0][:] = memoryview(bytes(image)).cast("b")


class Calls(Observer):
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def before(self, operator: PreparedOperator) -> None:
        self.calls.append(("before", operator.operator.index, int(operator.inputs[0].array.max())))

    def after(self, operator: PreparedOperator) -> None:
        self.calls.append(("after", operator.operator.index, int(operator.outputs[0].array.max())))


def test_each_operator_is_seen_before_and_after_with_its_tensors_as_they_are_then() -> None:
    network, calls = digits_network(), Calls()
    largest_of_image = max(network.inputs[0])
    observed(network, calls).invoke()
    names = [operator.operator.name for operator in network.operators]
    assert [call[:2] for call in calls.calls] == [
        (when, index) for index in range(len(names)) for when in ("before", "after")
    ]
    assert calls.calls[0][2] == largest_of_image
    assert calls.calls[-1][2] == max(network.outputs[0]) == 127


def test_only_the_operators_that_were_named_are_seen() -> None:
    network, calls = digits_network(), Calls()
    observed(network, calls, {2}).invoke()
    assert [call[:2] for call in calls.calls] == [("before", 2), ("after", 2)]


def test_the_network_itself_stays_unobserved() -> None:
    network, calls = digits_network(), Calls()
    observed(network, calls)
    network.invoke()
    assert calls.calls == []


def test_what_an_observer_raises_ends_the_run() -> None:
    class Stop(Observer):
        def before(self, operator: PreparedOperator) -> None:
            if operator.operator.index == 1:
                raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        observed(digits_network(), Stop()).invoke()


def test_copies_of_all_tensors_are_those_of_tflm_although_the_arena_is_shared() -> None:
    network, copies = digits_network(), TensorCopies()
    image = np.array(network.inputs[0], np.int8).reshape(network.model.input_tensors[0].shape)
    observed(network, copies).invoke()
    assert copies.tensors == tflm_tensors(digits.model_bytes(), [image], sorted(copies.tensors))


def test_files_hold_inputs_and_outputs_of_every_run(tmp_path: Path) -> None:
    network = digits_network()
    watched = observed(network, TensorFiles(tmp_path / "dumped"))
    results = []
    for number in range(2):
        set_image(network, number)
        watched.invoke()
        results.append(bytes(network.outputs[0]))
    runs = sorted((tmp_path / "dumped").iterdir())
    assert [run.name for run in runs] == ["000001", "000002"]
    last = network.operators[-1]
    for number, run in enumerate(runs):
        names = [path.stem.rpartition("-")[0] for path in sorted(run.iterdir())]
        assert names == [
            *(f"{each.operator.index:03}-{each.operator.name}" for each in network.operators),
            "input",
        ]
        image = np.load(run / f"input-{network.model.inputs[0]}.npy")
        assert image.tobytes() == bytes(digits.test_images()[number][0])
        scores = np.load(
            run / f"{last.operator.index:03}-{last.operator.name}-{network.model.outputs[0]}.npy"
        )
        assert (scores.dtype, scores.tobytes()) == (np.int8, results[number])


def test_work_of_the_digits_network() -> None:
    model = digits_network().model
    by_name = [(operator.name, operator_work(model, operator)) for operator in model.operators]
    # 8x8 pixels of 3x3 taps of 1 channel to 16; its 9 weights and its bias of 4 bytes, 16 times.
    assert by_name[0] == ("CONV_2D", Work(8 * 8 * 9 * 16, 64 + 16 * (9 + 4), 8 * 8 * 16))
    assert ("SOFTMAX", Work(0, 10, 10)) == by_name[-1]


def test_every_operator_is_timed() -> None:
    network = digits_network()
    costs = measure(network, 3)
    assert [cost.index for cost in costs] == [each.operator.index for each in network.operators]
    assert all(cost.seconds > 0 for cost in costs)
    assert [cost.computed_by for cost in costs] == ["numpy"] * 6
    assert [cost.work for cost in costs] == [
        operator_work(network.model, each.operator) for each in network.operators
    ]
    with pytest.raises(ValueError, match="0 runs"):
        measure(network, 0)
