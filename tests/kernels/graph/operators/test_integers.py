"""ADD, SUB and MUL of int32 beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from aisrv.kernels.graph.errors import GraphError
from tests.support.graph_runs import agree, loaded
from tests.support.models import single, tensor

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
    with pytest.raises(GraphError, match="the activation SIGN_BIT has no int32 kernel"):
        loaded(arithmetic(code, (2,), (2,), SIGN_BIT))


def test_types_that_differ_are_refused() -> None:
    model = single(
        BuiltinOperator.ADD,
        [tensor("one", (2,), kind=I32), tensor("two", (2,))],
        [tensor("out", (2,), kind=I32)],
    )
    with pytest.raises(GraphError, match="is INT8, must be INT32"):
        loaded(model)
