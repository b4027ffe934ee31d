"""UNIDIRECTIONAL_SEQUENCE_LSTM beside TensorFlow Lite Micro: every byte of the outputs of several runs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operators import lstm as lstm_module
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import ABSENT, Network, NetworkOperator
from tests.support.graph_runs import FEW, agree_in_turn, loaded
from tests.support.models import constant, random_int8, tensor

GATES = ("input", "forget", "cell", "output")
TANH = 4


def lstm(
    *,
    batch: int = 2,
    steps: int = 3,
    size: int = 4,
    units: int = 5,
    scales: tuple[float, float] = (0.05, 1 / 128),
    zeros: tuple[int, int] = (3, -7),
    cell_bits: int = 11,
    weight_scale: float = 0.01,
    options: dict[str, Any] | None = None,
    given: dict[int, str] | None = None,
    seed: int = 0,
) -> bytes:
    """Scales and zeros are those of the input and of the hidden state."""
    random = np.random.default_rng(seed)
    options = {"fused_activation_function": TANH, **(options or {})}
    shape = (steps, batch) if options.get("time_major") else (batch, steps)

    def matrix(name: str, columns: int) -> Tensor:
        scale = float(np.float32(random.uniform(weight_scale / 2, weight_scale)))
        values = random.integers(-127, 128, (units, columns))
        return constant(name, values, np.int8, Quantization.per_tensor(scale, 0))

    bias_scale = Quantization.per_tensor(1.0, 0)
    weights = [matrix(f"{gate} weights", size) for gate in GATES]
    recurrent = [matrix(f"{gate} recurrent", units) for gate in GATES]
    biases = [
        constant(f"{gate} bias", random.integers(-2000, 2000, units), np.int32, bias_scale) for gate in GATES
    ]
    hidden = Quantization.per_tensor(scales[1], zeros[1])
    cells = Quantization.per_tensor(2.0**-cell_bits, 0)
    tensors = (
        tensor("in", (*shape, size), scales[0], zeros[0]),
        *weights,
        *recurrent,
        *biases,
        Tensor("hidden", (batch, units), TensorType.INT8, hidden, is_variable=True),
        Tensor("cells", (batch, units), TensorType.INT16, cells, is_variable=True),
        tensor("out", (*shape, units), scales[1], zeros[1]),
    )
    inputs = ["in", *(each.name for each in (*weights, *recurrent)), *[ABSENT] * 3]
    inputs += [*(each.name for each in biases), ABSENT, ABSENT, "hidden", "cells", *[ABSENT] * 4]
    for number, name in (given or {}).items():
        inputs[number] = name
    code = BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM
    return bytes(
        Network(tensors, (NetworkOperator(code, tuple(inputs), ("out",), options),), ("in",), ("out",))
    )


@FEW
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 6),
    st.tuples(st.floats(2**-8, 0.25, width=32), st.floats(2**-8, 2**-6, width=32)),
    st.tuples(st.integers(-128, 127), st.integers(-128, 127)),
    st.integers(8, 15),
    st.floats(2**-8, 2**-3),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 10.0]),
    st.integers(0, 99),
)
def test_runs(
    batch: int,
    steps: int,
    size: int,
    units: int,
    scales: tuple[float, float],
    zeros: tuple[int, int],
    cell_bits: int,
    weight_scale: float,
    is_time_major: bool,
    clip: float,
    seed: int,
) -> None:
    model = lstm(
        batch=batch,
        steps=steps,
        size=size,
        units=units,
        scales=scales,
        zeros=zeros,
        cell_bits=cell_bits,
        weight_scale=weight_scale,
        options={"time_major": is_time_major, "cell_clip": clip},
        seed=seed,
    )
    shape = (steps, batch, size) if is_time_major else (batch, steps, size)
    agree_in_turn(model, [[random_int8(shape, seed + run)] for run in range(3)])


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
    with pytest.raises(GraphError, match=message):
        loaded(lstm(**changed))


@pytest.mark.parametrize("name", ["_sigmoid", "_tanh"])
def test_a_function_that_is_off_by_one_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model, inputs = lstm(units=20, steps=10), [[random_int8((2, 10, 4))]]
    agree_in_turn(model, inputs)
    function = getattr(lstm_module, name)
    monkeypatch.setattr(lstm_module, name, lambda *arguments: function(*arguments) + 40)
    with pytest.raises(AssertionError):
        agree_in_turn(model, inputs)
