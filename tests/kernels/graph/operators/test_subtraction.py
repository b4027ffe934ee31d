"""SQUARED_DIFFERENCE beside TensorFlow Lite Micro: every byte of the output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.kernels.graph.operators import subtraction
from tests.support.graph_runs import FEW, agree
from tests.support.models import random_int8, single, tensor

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
    monkeypatch.setattr(subtraction, "_SQUARED_LEFT_SHIFT", 2)
    with pytest.raises(AssertionError):
        agree(model, *data)
