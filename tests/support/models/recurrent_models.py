"""Models of one recurrent layer each, of random weights: SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM."""

from typing import Any, Final

import numpy as np
from tflite import BuiltinOperator, TensorType

from aisrv.model.dtypes import DTYPES
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import ABSENT, Network, NetworkOperator
from tests.support.models.one_operator import constant, single, tensor

GATES: Final = ("input", "forget", "cell", "output")
TANH: Final = 4


def svdf(
    *,
    batch: int = 1,
    size: int = 6,
    units: int = 3,
    rank: int = 2,
    memory: int = 4,
    kind: TensorType = TensorType.INT16,
    scales: tuple[float, ...] = (0.1, 0.02, 0.003, 0.01, 0.2),
    zeros: tuple[int, int, int] = (3, 0, -5),
    is_variable: bool = True,
    told_rank: int | None = None,
    seed: int = 0,
) -> bytes:
    """Scales are those of input, features, state, times and output; zeros of input, state, output."""
    random = np.random.default_rng(seed)
    filters = units * rank
    limit = 64 if kind is TensorType.INT8 else 16384
    # TFLM compares it with the product of the two other scales.
    bias_scale = Quantization.per_tensor(scales[2] * scales[3], 0)
    bias = [constant("bias", random.integers(-9999, 9999, units), np.int32, bias_scale)]
    state = Quantization.per_tensor(scales[2], zeros[1])
    return single(
        BuiltinOperator.SVDF,
        [
            tensor("in", (batch, size), scales[0], zeros[0]),
            constant(
                "features",
                random.integers(-127, 128, (filters, size)),
                np.int8,
                Quantization.per_tensor(scales[1], 0),
            ),
            constant(
                "times",
                random.integers(-limit, limit, (filters, memory)),
                DTYPES[kind],
                Quantization.per_tensor(scales[3], 0),
            ),
            *bias,
            Tensor("state", (batch, memory * filters), kind, state, is_variable=is_variable),
        ],
        [tensor("out", (batch, units), scales[4], zeros[2])],
        {"rank": rank if told_rank is None else told_rank},
    )


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
    kind: TensorType = TensorType.INT8,
    seed: int = 0,
) -> bytes:
    """Scales and zeros are those of the input and of the hidden state, which are of one type."""
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
        constant(
            f"{gate} bias",
            random.integers(-2000, 2000, units),
            np.int32 if kind == TensorType.INT8 else np.int64,
            bias_scale,
        )
        for gate in GATES
    ]
    hidden = Quantization.per_tensor(scales[1], zeros[1])
    cells = Quantization.per_tensor(2.0**-cell_bits, 0)
    tensors = (
        tensor("in", (*shape, size), scales[0], zeros[0], kind),
        *weights,
        *recurrent,
        *biases,
        Tensor("hidden", (batch, units), kind, hidden, is_variable=True),
        Tensor("cells", (batch, units), TensorType.INT16, cells, is_variable=True),
        tensor("out", (*shape, units), scales[1], zeros[1], kind),
    )
    inputs = ["in", *(each.name for each in (*weights, *recurrent)), *[ABSENT] * 3]
    inputs += [*(each.name for each in biases), ABSENT, ABSENT, "hidden", "cells", *[ABSENT] * 4]
    for number, name in (given or {}).items():
        inputs[number] = name
    code = BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM
    return bytes(
        Network(tensors, (NetworkOperator(code, tuple(inputs), ("out",), options),), ("in",), ("out",))
    )
