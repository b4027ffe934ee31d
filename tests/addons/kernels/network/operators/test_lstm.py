"""UNIDIRECTIONAL_SEQUENCE_LSTM beside TensorFlow Lite Micro: every byte of the outputs of several runs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import TensorType

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import lstm as lstm_module
from aisrv.model.writer import ABSENT
from tests.support.models.one_operator import random_int8
from tests.support.models.recurrent_models import lstm
from tests.support.oracles.network_runs import FEW, agree_in_turn, loaded


@FEW
@given(
    batch=st.integers(1, 3),
    steps=st.integers(1, 4),
    size=st.integers(1, 6),
    units=st.integers(1, 6),
    scales=st.tuples(st.floats(2**-8, 0.25, width=32), st.floats(2**-8, 2**-6, width=32)),
    zeros=st.tuples(st.integers(-128, 127), st.integers(-128, 127)),
    cell_bits=st.integers(8, 15),
    weight_scale=st.floats(2**-8, 2**-3),
    options=st.fixed_dictionaries(
        {"time_major": st.booleans(), "cell_clip": st.sampled_from([0.0, 0.5, 10.0])}
    ),
    seed=st.integers(0, 99),
)
def test_runs(batch: int, steps: int, size: int, options: dict[str, Any], seed: int, **layer: Any) -> None:
    model = lstm(batch=batch, steps=steps, size=size, options=options, seed=seed, **layer)
    shape = (steps, batch, size) if options["time_major"] else (batch, steps, size)
    agree_in_turn(model, [[random_int8(shape, seed + run)] for run in range(3)])


@FEW
@given(st.integers(0, 1 << 32))
def test_runs_of_int16(seed: int) -> None:
    random = np.random.default_rng(seed)
    batch, steps, size, units = (int(number) for number in random.integers(1, 6, 4))
    scales = (2.0 ** random.uniform(-14, -9), 2.0 ** random.uniform(-16, -14))
    is_time_major = bool(random.integers(2))
    model = lstm(
        batch=batch,
        steps=steps,
        size=size,
        units=units,
        scales=(float(np.float32(scales[0])), float(np.float32(scales[1]))),
        zeros=(0, 0),
        cell_bits=int(random.integers(8, 16)),
        weight_scale=float(random.uniform(2**-8, 2**-3)),
        options={"time_major": is_time_major, "cell_clip": float(random.choice([0.0, 0.5, 10.0]))},
        kind=TensorType.INT16,
        seed=seed,
    )
    shape = (steps, batch, size) if is_time_major else (batch, steps, size)
    runs = [[random.integers(-(1 << 15), 1 << 15, shape, np.int16)] for _ in range(3)]
    agree_in_turn(model, runs)


@pytest.mark.parametrize("zeros", [(1, 0), (0, -1)])
def test_int16_has_no_zero_points(zeros: tuple[int, int]) -> None:
    with pytest.raises(NetworkError, match="of int16 must be 0"):
        loaded(lstm(kind=TensorType.INT16, zeros=zeros))


def test_a_long_sequence() -> None:
    model = lstm(batch=1, steps=40, size=12, units=24)
    agree_in_turn(model, [[random_int8((1, 40, 12), run)] for run in range(2)])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"options": {"fused_activation_function": 1}}, "the activation is RELU, must be TANH"),
        ({"given": {9: "input bias"}}, "has peephole weights"),
        ({"given": {17: "input bias"}}, "has a projection"),
        ({"given": {20: "input bias"}}, "has a normalization of layers"),
        ({"given": {1: ABSENT}}, "has no input 1"),
        ({"given": {1: "input recurrent"}}, r"has shape \[5, 5\], expected \[5, 4\]"),
        ({"given": {18: "in"}}, r"the hidden state \[2, 3, 4\]"),
        ({"cell_bits": 40}, "its tanh does not fit 32 bits"),
        ({"cell_bits": -40}, "its tanh does not fit 32 bits"),
        ({"options": {"cell_clip": float("nan")}}, "cell_clip is nan"),
    ],
)
def test_what_tflm_does_not_know_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        loaded(lstm(**changed))


@pytest.mark.parametrize("name", ["sigmoid_table", "tanh_table"])
def test_a_function_that_is_off_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    inputs = [[random_int8((2, 10, 4))]]
    agree_in_turn(lstm(units=20, steps=10), inputs)
    table = getattr(lstm_module, name)
    monkeypatch.setattr(lstm_module, name, lambda *shift: table(*shift) + 40)
    with pytest.raises(AssertionError):
        agree_in_turn(lstm(units=20, steps=10), inputs)
