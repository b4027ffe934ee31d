"""SVDF beside TensorFlow Lite Micro: every byte of the outputs of several runs, as the state grows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import TensorType

from aisrv.addons.kernels.backends.numpy.words import word_scale
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import svdf as svdf_module
from tests.support.models.one_operator import random_int8
from tests.support.models.recurrent_models import svdf
from tests.support.oracles.network_runs import FEW, agree_in_turn, loaded

few = st.integers(1, 4)
scales = st.floats(2**-7, 0.25, width=32)
zero_points = st.integers(-128, 127)


@FEW
@given(
    batch=few,
    size=st.integers(1, 8),
    units=few,
    rank=st.integers(1, 3),
    memory=few,
    kind=st.sampled_from([TensorType.INT8, TensorType.INT16]),
    scales=st.tuples(scales, scales, scales, scales, scales),
    zeros=st.tuples(zero_points, st.just(0), zero_points),
    seed=st.integers(0, 99),
)
def test_runs(batch: int, size: int, memory: int, seed: int, **layer: Any) -> None:
    model = svdf(batch=batch, size=size, memory=memory, seed=seed, **layer)
    agree_in_turn(model, [[random_int8((batch, size), seed + run)] for run in range(memory + 2)])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"told_rank": 0}, "the rank is 0, must divide 6 filters"),
        ({"told_rank": 4}, "the rank is 4, must divide 6 filters"),
        ({"is_variable": False}, "must be a variable"),
    ],
)
def test_what_is_no_layer_of_this_kind_is_refused(changed: dict[str, int], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        loaded(svdf(**changed))  # type: ignore[arg-type]


@pytest.mark.parametrize("zero", [-60, 7, 40])
def test_a_state_of_8_bits_with_a_zero_point(zero: int) -> None:
    # Scales with which no state comes near its bounds, where versions of TFLM differ.
    model = svdf(
        kind=TensorType.INT8, scales=(0.01, 0.01, 0.2, 0.01, 0.002), zeros=(3, zero, -5), units=8, seed=1
    )
    agree_in_turn(model, [[random_int8((1, 6), run)] for run in range(6)])


def test_a_product_that_is_off_by_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = svdf(kind=TensorType.INT8, units=8), [[random_int8((1, 6), run)] for run in range(6)]
    agree_in_turn(model, inputs)
    monkeypatch.setattr(svdf_module, "word_scale", lambda factors: lambda x: word_scale(factors)(x) + 1)
    with pytest.raises(AssertionError):
        agree_in_turn(model, inputs)
