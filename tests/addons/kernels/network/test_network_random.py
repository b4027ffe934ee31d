"""Random networks on backends beside TensorFlow Lite Micro: every byte of every output."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.backend import kernel_origin
from aisrv.addons.kernels.backends.registry import BackendError, find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.operators import OPERATORS
from aisrv.model import TensorType
from aisrv.model.reader import read_model
from tests.support.amounts import in_ci
from tests.support.models.float32_cases import has_tflms_bits
from tests.support.models.one_operator import tflm
from tests.support.models.random_networks import NOT_DRAWN, STEPS, drawn_operators, random_network
from tests.support.oracles.network_runs import run_network

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


@pytest.mark.parametrize(
    ("activations", "networks"),
    [(TensorType.INT8, in_ci(140, every_day=40)), (TensorType.INT16, in_ci(60, every_day=20))],
)
def test_equals_tflm(activations: TensorType, networks: int) -> None:
    names = st.sampled_from(drawn_operators(activations))

    @settings(max_examples=networks, derandomize=True, deadline=None)
    @given(st.integers(0, 1 << 32), st.lists(names, min_size=2, max_size=9))
    def compare(seed: int, steps: list[str]) -> None:
        model, data = random_network(seed, activations, steps)
        expected = tflm(model, data, outputs=len(read_model(model).outputs))
        for backend in BACKENDS:
            assert run_network(load_network(model, backend), [data]) == expected

    compare()


@pytest.mark.parametrize("name", drawn_operators(TensorType.FLOAT32))
def test_floats_are_tflms_but_for_the_order_of_sums(name: str) -> None:
    """And where the native kernels compute them, all of them are."""
    for seed in range(in_ci(12, every_day=4)):
        model, data = random_network(seed, TensorType.FLOAT32, [("RESHAPE", "UNPACK")[seed % 2], name])
        expected = tflm(model, data, outputs=len(read_model(model).outputs))
        for backend in BACKENDS[1:]:
            network = load_network(model, backend)
            found = run_network(network, [data])
            origins = [kernel_origin(op.kernel) for op in network.operators if op.operator.name == name]
            if set(origins) == {"native"} and has_tflms_bits(getattr(BuiltinOperator, name)):
                assert found == expected
            for mine, theirs in zip(found, expected, strict=True):
                close(np.frombuffer(mine, np.float32), np.frombuffer(theirs, np.float32))


def close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Check that floats differ by at most 2**-20 of the largest of them."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.0**-20 * float(np.abs(expected).max()))


def test_every_operator_of_floats_is_drawn() -> None:
    floats = {name for name, computation in OPERATORS.items() if computation.floats}
    assert floats <= set(STEPS[TensorType.FLOAT32])


def test_every_operator_of_networks_is_drawn_or_says_why_not() -> None:
    drawn = {name for steps in STEPS.values() for name in steps}
    assert drawn | set(NOT_DRAWN) == set(OPERATORS)
    assert not drawn & set(NOT_DRAWN)


@pytest.mark.parametrize("activations", [TensorType.INT8, TensorType.INT16, TensorType.FLOAT32])
def test_every_step_makes_its_operator(activations: TensorType) -> None:
    for name in drawn_operators(activations):
        made: set[str] = set()
        for seed in range(40):
            # Some take four dimensions, some less.
            model, _ = random_network(seed, activations, [("SOFTMAX", "UNPACK")[seed % 2], name])
            made.update(each.name for each in read_model(model).operators)
            if name in made:
                break
        assert name in made
