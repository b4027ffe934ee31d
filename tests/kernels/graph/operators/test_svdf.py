"""SVDF beside TensorFlow Lite Micro: every byte of the outputs of several runs, as the state grows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operators import svdf as svdf_module
from aisrv.kernels.graph.operators.vectors import multiply
from aisrv.model.values import Quantization, Tensor
from tests.support.graph_runs import FEW, agree_in_turn, loaded
from tests.support.models import constant, random_int8, single, tensor

few = st.integers(1, 4)
scales = st.floats(2**-7, 0.25, width=32)
zero_points = st.integers(-128, 127)
DTYPES = {TensorType.INT8: np.int8, TensorType.INT16: np.int16}


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


@FEW
@given(
    few,
    st.integers(1, 8),
    few,
    st.integers(1, 3),
    few,
    st.sampled_from([*DTYPES]),
    st.tuples(scales, scales, scales, scales, scales),
    st.tuples(zero_points, st.just(0), zero_points),
    st.integers(0, 99),
)
def test_runs(
    batch: int,
    size: int,
    units: int,
    rank: int,
    memory: int,
    kind: TensorType,
    scales: tuple[float, ...],
    zeros: tuple[int, int, int],
    seed: int,
) -> None:
    # Weights of 16 bits have a scale that keeps their sums in 32.
    scales = (*scales[:3], scales[3] / (1 if kind is TensorType.INT8 else 256), scales[4])
    model = svdf(
        batch=batch,
        size=size,
        units=units,
        rank=rank,
        memory=memory,
        kind=kind,
        scales=scales,
        zeros=zeros,
        seed=seed,
    )
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
    with pytest.raises(GraphError, match=message):
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
    monkeypatch.setattr(svdf_module, "multiply", lambda values, factor: multiply(values, factor) + 1)
    with pytest.raises(AssertionError):
        agree_in_turn(model, inputs)
