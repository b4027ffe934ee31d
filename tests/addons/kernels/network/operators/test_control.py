"""IF and WHILE beside TensorFlow Lite Micro: every byte, and what is refused."""

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv.addons.kernels.network.errors import NetworkError, UnsupportedOperator
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from tests.support.models.control_models import ROW, chain, choosing, counting, drawn, endless
from tests.support.models.kernel_backends import shipped_backend
from tests.support.models.one_operator import random_int8
from tests.support.oracles.network_runs import agree_in_turn, loaded, run_network


def number(value: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array([value], np.int32)


def test_one_of_two_subgraphs() -> None:
    runs = [(random_int8(ROW, seed), number(seed % 3), number(1)) for seed in range(6)]
    found = agree_in_turn(choosing(), runs)
    assert found[0] != found[1]


@pytest.mark.parametrize("seed", range(8))
def test_subgraphs_in_subgraphs(seed: int) -> None:
    runs = [(random_int8(ROW, seed), number(which), number(1)) for which in range(2)]
    agree_in_turn(drawn(seed), runs)


def test_a_subgraph_that_calls_itself_is_refused() -> None:
    with pytest.raises(NetworkError, match="subgraph 1 calls itself"):
        loaded(endless())


@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_loop(times: int) -> None:
    runs = [(random_int8(ROW, seed), number(seed)) for seed in range(4)]
    found = agree_in_turn(counting(times), runs, outputs=2)
    assert [each[1] for each in found] == [number(max(times, seed)).tobytes() for seed in range(4)]


@pytest.mark.parametrize("backend", ["reference", "numpy"])
def test_a_plan_whose_tensors_lie_apart(backend: str) -> None:
    model, inputs = choosing(), (random_int8(ROW), number(0), number(1))
    apart = load_network(model, shipped_backend(backend), planner=plan_apart)
    assert run_network(apart, inputs) == run_network(loaded(model), inputs)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (choosing(numbers=(1, 3)), r"operator 2 \(IF\): unknown subgraph 3 to call: the file has 3"),
        (choosing(numbers=(0, 1)), r"operator 2 \(IF\): unknown subgraph 0 to call: the file has 3"),
        (choosing(chain("then", [], (1, 3))), r"operator 2 \(IF\): tensor 4 has shape \[1, 40\], tensor 7"),
    ],
)
def test_subgraphs_that_do_not_fit_are_refused(model: bytes, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        loaded(model)


def test_an_operator_of_a_subgraph_that_has_no_kernel_is_named() -> None:
    with pytest.raises(UnsupportedOperator, match=r"subgraph 1: operator 0 is COS \(builtin operator 108\)"):
        loaded(choosing(chain("then", [BuiltinOperator.COS])))
