"""ADD, SUB and MUL of int32, and SQUARED_DIFFERENCE, beside TensorFlow Lite Micro: every byte."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import elementwise
from tests.support.models.one_operator import random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

I32 = TensorType.INT32
SIGN_BIT = 5


def arithmetic(code: int, first: tuple[int, ...], second: tuple[int, ...], activation: int = 0) -> bytes:
    return single(
        code,
        [tensor("one", first, kind=I32), tensor("two", second, kind=I32)],
        [tensor("out", np.broadcast_shapes(first, second), kind=I32)],
        {"fused_activation_function": activation},
    )


@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.SUB, BuiltinOperator.MUL])
@pytest.mark.parametrize("activation", [0, 1, 2, 3])
@pytest.mark.parametrize("second", [(2, 4), (1, 4), (1, 1)])
def test_integers(code: int, activation: int, second: tuple[int, ...]) -> None:
    one = np.array([[5, -7, 100_000, 1 << 30], [0, 1, -1, -(1 << 31)]], np.int32)
    two = np.array([[3, 2, 100_000, 1 << 30], [-4, 6, -1, -1]], np.int32)[: second[0], : second[1]]
    agree(arithmetic(code, one.shape, second, activation), one, two)


@pytest.mark.parametrize("code", [BuiltinOperator.SUB, BuiltinOperator.MUL])
def test_an_activation_that_integers_do_not_know_is_refused(code: int) -> None:
    with pytest.raises(NetworkError, match="the activation SIGN_BIT has no int32 kernel"):
        loaded(arithmetic(code, (2,), (2,), SIGN_BIT))


def test_types_that_differ_are_refused() -> None:
    model = single(
        BuiltinOperator.ADD,
        [tensor("one", (2,), kind=I32), tensor("two", (2,))],
        [tensor("out", (2,), kind=I32)],
    )
    with pytest.raises(NetworkError, match="is INT8, must be INT32"):
        loaded(model)


scales = st.floats(2**-9, 0.5, width=32)
zero_points = st.integers(-128, 127)


def squared_difference(second: tuple[int, ...], scales: tuple[float, ...], zeros: tuple[int, ...]) -> bytes:
    return single(
        BuiltinOperator.SQUARED_DIFFERENCE,
        [tensor("one", (4, 5, 6), scales[0], zeros[0]), tensor("two", second, scales[1], zeros[1])],
        [tensor("out", (4, 5, 6), scales[2], zeros[2])],
    )


@FEW
@given(
    st.sampled_from([(4, 5, 6), (1, 1, 6), (5, 1), (1,)]),
    st.tuples(scales, scales, scales),
    st.tuples(zero_points, zero_points, zero_points),
    st.integers(0, 99),
)
def test_squared_difference(
    second: tuple[int, ...], scales: tuple[float, ...], zeros: tuple[int, ...], seed: int
) -> None:
    model = squared_difference(second, scales, zeros)
    agree(model, random_int8((4, 5, 6), seed), random_int8(second, seed + 1))


def test_inputs_that_are_widened_by_less_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = squared_difference((1, 1, 6), (0.05, 0.04, 0.7), (3, -7, -128))
    data = random_int8((4, 5, 6)), random_int8((1, 1, 6), 1)
    agree(model, *data)
    monkeypatch.setattr(elementwise, "_SQUARED_LEFT_SHIFT", 2)
    with pytest.raises(AssertionError):
        agree(model, *data)
