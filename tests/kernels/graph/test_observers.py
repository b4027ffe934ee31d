"""Observers: who is called when, with which tensors; files of tensors; times and work of operators."""

from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.kernels.backends.registry import find_backend
from aisrv.kernels.graph.graph import Graph, GraphOperator
from aisrv.kernels.graph.load import load_graph
from aisrv.kernels.graph.observers import (
    Observer,
    TensorCopies,
    TensorFiles,
    Work,
    measure,
    observed,
    operator_work,
)
from tests.support.models import tflm_tensors


def digits_graph() -> Graph:
    graph = load_graph(digits.model_bytes(), find_backend("numpy"))
    set_image(graph)
    return graph


def set_image(graph: Graph, number: int = 0) -> None:
    image, _ = digits.test_images()[number]
    graph.inputs[0][:] = memoryview(bytes(image)).cast("b")


class Calls(Observer):
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def before(self, operator: GraphOperator) -> None:
        self.calls.append(("before", operator.operator.index, int(operator.inputs[0].array.max())))

    def after(self, operator: GraphOperator) -> None:
        self.calls.append(("after", operator.operator.index, int(operator.outputs[0].array.max())))


def test_each_operator_is_seen_before_and_after_with_its_tensors_as_they_are_then() -> None:
    graph, calls = digits_graph(), Calls()
    largest_of_image = max(graph.inputs[0])
    observed(graph, calls).invoke()
    names = [operator.operator.name for operator in graph.operators]
    assert [call[:2] for call in calls.calls] == [
        (when, index) for index in range(len(names)) for when in ("before", "after")
    ]
    assert calls.calls[0][2] == largest_of_image
    assert calls.calls[-1][2] == max(graph.outputs[0]) == 127


def test_only_the_operators_that_were_named_are_seen() -> None:
    graph, calls = digits_graph(), Calls()
    observed(graph, calls, {2}).invoke()
    assert [call[:2] for call in calls.calls] == [("before", 2), ("after", 2)]


def test_the_graph_itself_stays_unobserved() -> None:
    graph, calls = digits_graph(), Calls()
    observed(graph, calls)
    graph.invoke()
    assert calls.calls == []


def test_what_an_observer_raises_ends_the_run() -> None:
    class Stop(Observer):
        def before(self, operator: GraphOperator) -> None:
            if operator.operator.index == 1:
                raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        observed(digits_graph(), Stop()).invoke()


def test_copies_of_all_tensors_are_those_of_tflm_although_the_arena_is_shared() -> None:
    graph, copies = digits_graph(), TensorCopies()
    image = np.array(graph.inputs[0], np.int8).reshape(graph.model.input_tensors[0].shape)
    observed(graph, copies).invoke()
    assert copies.tensors == tflm_tensors(digits.model_bytes(), [image], sorted(copies.tensors))


def test_files_hold_inputs_and_outputs_of_every_run(tmp_path: Path) -> None:
    graph = digits_graph()
    watched = observed(graph, TensorFiles(tmp_path / "dumped"))
    results = []
    for number in range(2):
        set_image(graph, number)
        watched.invoke()
        results.append(bytes(graph.outputs[0]))
    runs = sorted((tmp_path / "dumped").iterdir())
    assert [run.name for run in runs] == ["000001", "000002"]
    last = graph.operators[-1]
    for number, run in enumerate(runs):
        names = [path.stem.rpartition("-")[0] for path in sorted(run.iterdir())]
        assert names == [
            *(f"{each.operator.index:03}-{each.operator.name}" for each in graph.operators),
            "input",
        ]
        image = np.load(run / f"input-{graph.model.inputs[0]}.npy")
        assert image.tobytes() == bytes(digits.test_images()[number][0])
        scores = np.load(run / f"{last.operator.index:03}-{last.operator.name}-{graph.model.outputs[0]}.npy")
        assert (scores.dtype, scores.tobytes()) == (np.int8, results[number])


def test_work_of_the_digits_network() -> None:
    model = digits_graph().model
    by_name = [(operator.name, operator_work(model, operator)) for operator in model.operators]
    # 8x8 pixels of 3x3 taps of 1 channel to 16; its 9 weights and its bias of 4 bytes, 16 times.
    assert by_name[0] == ("CONV_2D", Work(8 * 8 * 9 * 16, 64 + 16 * (9 + 4), 8 * 8 * 16))
    assert ("SOFTMAX", Work(0, 10, 10)) == by_name[-1]


def test_every_operator_is_timed() -> None:
    graph = digits_graph()
    costs = measure(graph, 3)
    assert [cost.index for cost in costs] == [each.operator.index for each in graph.operators]
    assert all(cost.seconds > 0 for cost in costs)
    assert [cost.computed_by for cost in costs] == ["numpy"] * 6
    assert [cost.work for cost in costs] == [
        operator_work(graph.model, each.operator) for each in graph.operators
    ]
    with pytest.raises(ValueError, match="0 runs"):
        measure(graph, 0)
