"""Random networks on backends beside TensorFlow Lite Micro: every byte of every output."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.kernels.backends.registry import BackendError, find_backend
from aisrv.kernels.graph.load import load_graph
from aisrv.kernels.graph.operators import OPERATORS
from aisrv.model import TensorType
from aisrv.model.reader import read_model
from tests.support.models import tflm
from tests.support.random_networks import NOT_DRAWN, STEPS, drawn_operators, random_network

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")

TRIED = ("reference", "numpy", "native")
"""Backends of which each network is run on those that are installed; the long checks run all."""


def installed() -> list[Any]:
    found = []
    for name in TRIED:
        try:
            found.append(find_backend(name))
        except BackendError:
            continue
    return found


BACKENDS = installed()


def outputs(model: bytes, data: np.ndarray[Any, Any], backend: Any) -> list[bytes]:
    graph = load_graph(model, backend)
    graph.inputs[0][:] = memoryview(data.tobytes()).cast("b")
    graph.invoke()
    return [bytes(each) for each in graph.outputs]


@pytest.mark.parametrize(("activations", "networks"), [(TensorType.INT8, 140), (TensorType.INT16, 60)])
def test_equals_tflm(activations: TensorType, networks: int) -> None:
    names = st.sampled_from(drawn_operators(activations))

    @settings(max_examples=networks, derandomize=True, deadline=None)
    @given(st.integers(0, 1 << 32), st.lists(names, min_size=2, max_size=9))
    def compare(seed: int, steps: list[str]) -> None:
        model, data = random_network(seed, activations, steps)
        expected = tflm(model, data, outputs=len(read_model(model).outputs))
        for backend in BACKENDS:
            assert outputs(model, data, backend) == expected

    compare()


def test_every_operator_of_graphs_is_drawn_or_says_why_not() -> None:
    drawn = {name for steps in STEPS.values() for name in steps}
    assert drawn | set(NOT_DRAWN) == set(OPERATORS)
    assert not drawn & set(NOT_DRAWN)


@pytest.mark.parametrize("activations", [TensorType.INT8, TensorType.INT16])
def test_every_step_makes_its_operator(activations: TensorType) -> None:
    for name in drawn_operators(activations):
        made: set[str] = set()
        for seed in range(40):
            # Some take four dimensions, some less.
            model, _ = random_network(seed, activations, [("SOFTMAX", "UNPACK")[seed % 2], name])
            made.update(each.name for each in read_model(model).operators)
        assert name in made
