"""Elements of float32 beside TensorFlow Lite Micro: every bit, or as near as two exponentials are."""

from typing import Any

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv.model import TensorType
from tests.support.models.one_operator import single, tensor, tflm
from tests.support.oracles.network_runs import agree, loaded, run_network

F32 = TensorType.FLOAT32
ODD = np.array([0, 1, -1, 7, -7, 1e-40, 3e38, -3e38, np.inf, -np.inf], np.float32)


def unary(code: int, **options: float) -> bytes:
    return single(
        code, [tensor("in", ODD.shape, kind=F32)], [tensor("out", ODD.shape, kind=F32)], options or None
    )


@pytest.mark.parametrize(
    "code", [BuiltinOperator.RELU, BuiltinOperator.RELU6, BuiltinOperator.ABS, BuiltinOperator.HARD_SWISH]
)
def test_functions_that_are_exact(code: int) -> None:
    agree(unary(code), ODD)


def test_slopes_are_exact() -> None:
    agree(unary(BuiltinOperator.LEAKY_RELU, alpha=0.3), ODD)


@pytest.mark.parametrize("code", [BuiltinOperator.LOGISTIC, BuiltinOperator.TANH])
def test_exponentials_are_near(code: int) -> None:
    data = np.linspace(-20, 20, ODD.size * 500, dtype=np.float32)
    model = single(code, [tensor("in", data.shape, kind=F32)], [tensor("out", data.shape, kind=F32)])
    (found,), (expected,) = run_network(loaded(model), [data]), tflm(model, data)
    np.testing.assert_array_max_ulp(
        np.frombuffer(found, np.float32), np.frombuffer(expected, np.float32), maxulp=8
    )


@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.SUB, BuiltinOperator.MUL])
@pytest.mark.parametrize("activation", range(4))
def test_pairs_are_exact(code: int, activation: int) -> None:
    # Infinities of a sum become the largest float, as in TensorFlow Lite Micro; zeros may have either sign.
    one, two = np.meshgrid(ODD[1:8], ODD[2:8])
    inputs: tuple[np.ndarray[Any, Any], ...] = tuple(np.ascontiguousarray(each) for each in (one, two))
    model = single(
        code,
        [tensor(name, one.shape, kind=F32) for name in ("one", "two")],
        [tensor("out", one.shape, kind=F32)],
        {"fused_activation_function": activation},
    )
    (found,), (expected,) = run_network(loaded(model), inputs), tflm(model, *inputs)
    np.testing.assert_array_equal(np.frombuffer(found, np.float32), np.frombuffer(expected, np.float32))
