"""RELU, RELU6, PRELU and ABS beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import rectifiers
from tests.support.models.one_operator import random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

ALL_INT8 = np.arange(-128, 128, dtype=np.int8)
scales = st.floats(2**-9, 4, width=32)
zero_points = st.integers(-128, 127)


def unary(code: int, scale: float, zero: int, out_scale: float, out_zero: int) -> bytes:
    return single(code, [tensor("in", (256,), scale, zero)], [tensor("out", (256,), out_scale, out_zero)])


@pytest.mark.parametrize("code", [BuiltinOperator.RELU, BuiltinOperator.RELU6, BuiltinOperator.ABS])
@FEW
@given(scales, zero_points, scales, zero_points, st.booleans())
def test_functions(
    code: int, scale: float, zero: int, out_scale: float, out_zero: int, is_alike: bool
) -> None:
    if is_alike:
        out_scale, out_zero = scale, zero
    agree(unary(code, scale, zero, out_scale, out_zero), ALL_INT8)


def prelu(
    shape: tuple[int, ...],
    slopes: tuple[int, ...],
    scales: tuple[float, float, float],
    zeros: tuple[int, ...],
) -> bytes:
    return single(
        BuiltinOperator.PRELU,
        [tensor("in", shape, scales[0], zeros[0]), tensor("slopes", slopes, scales[1], zeros[1])],
        [tensor("out", shape, scales[2], zeros[2])],
    )


@FEW
@given(
    st.sampled_from([(1, 1, 5), (1, 1, 1), (3, 4, 5), (4, 5)]),
    st.tuples(scales, scales, scales),
    st.tuples(zero_points, zero_points, zero_points),
    st.integers(0, 99),
)
def test_prelu(
    slopes: tuple[int, ...], scales: tuple[float, float, float], zeros: tuple[int, ...], seed: int
) -> None:
    shape = (3, 4, 5)
    agree(prelu(shape, slopes, scales, zeros), random_int8(shape, seed), random_int8(slopes, seed + 1))


def test_slopes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"of shape \[2\] does not broadcast to \[1, 3\]"):
        loaded(prelu((1, 3), (2,), (1.0, 1.0, 1.0), (0, 0, 0)))


def test_a_product_without_its_zero_point_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = prelu((1, 60), (1,), (0.1, 0.02, 0.1), (3, -7, 3)), random_int8((1, 60))
    slope = np.array([-20], np.int8)
    agree(model, data, slope)
    monkeypatch.setattr(rectifiers, "word_scale", lambda m: lambda v: v * m[0].mantissa >> 31 - m[0].shift)
    with pytest.raises(AssertionError):
        agree(model, data, slope)
