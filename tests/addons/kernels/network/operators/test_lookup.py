"""LOGISTIC and TANH beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import difference_over_sum
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import lookup
from tests.support.models.one_operator import single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

ALL_INT8 = np.arange(-128, 128, dtype=np.int8)


def tanh(scale: float, zero: int, out_scale: float = 1 / 128, out_zero: int = 0) -> bytes:
    return single(
        BuiltinOperator.TANH,
        [tensor("in", (256,), scale, zero)],
        [tensor("out", (256,), out_scale, out_zero)],
    )


@FEW
@given(st.floats(2**-13, 3, width=32), st.integers(-128, 127))
def test_tanh(scale: float, zero: int) -> None:
    agree(tanh(scale, zero), ALL_INT8)


@pytest.mark.parametrize("scale", [7.5, 8.0, 16.0, 1e6])
@pytest.mark.parametrize(
    ("code", "out_scale", "out_zero"),
    [(BuiltinOperator.LOGISTIC, 1 / 256, -128), (BuiltinOperator.TANH, 1 / 128, 0)],
)
def test_large_scales_leave_the_ends_alone(code: int, out_scale: float, out_zero: int, scale: float) -> None:
    model = single(code, [tensor("in", (256,), scale, 3)], [tensor("out", (256,), out_scale, out_zero)])
    agree(model, ALL_INT8)


@pytest.mark.parametrize(("scale", "zero"), [(1 / 256, 0), (1 / 128, 3)])
def test_another_scale_of_the_output_is_refused(scale: float, zero: int) -> None:
    with pytest.raises(NetworkError, match="tensor 1 must have scale 1/128 and zero point 0"):
        loaded(tanh(0.1, 0, scale, zero))


def test_a_quotient_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    agree(tanh(0.02, 0), ALL_INT8)
    monkeypatch.setattr(lookup, "difference_over_sum", lambda a: difference_over_sum(a) - (1 << 23))
    with pytest.raises(AssertionError):
        agree(tanh(0.02, 0), ALL_INT8)
