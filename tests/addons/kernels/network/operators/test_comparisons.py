"""Comparisons and logic beside TensorFlow Lite Micro: every byte of the output."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.arithmetic import multiply_once_rounded
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import comparisons
from tests.support.models.one_operator import single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

BOOL = TensorType.BOOL
COMPARISONS = [
    BuiltinOperator.EQUAL,
    BuiltinOperator.NOT_EQUAL,
    BuiltinOperator.GREATER,
    BuiltinOperator.GREATER_EQUAL,
    BuiltinOperator.LESS,
    BuiltinOperator.LESS_EQUAL,
]
DTYPES = {
    TensorType.INT32: np.int32,
    TensorType.INT64: np.int64,
    TensorType.FLOAT32: np.float32,
    TensorType.BOOL: np.bool_,
}
shapes = st.sampled_from(
    [((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2, 3), (2, 1)), ((1, 1, 3), (4, 2, 1)), ((3,), (1,))]
)
scales = st.floats(2**-9, 0.5, width=32)
zero_points = st.integers(-128, 127)


def compare(
    code: int,
    first: tuple[int, ...],
    second: tuple[int, ...],
    kind: TensorType,
    scale: tuple[float, float] = (1.0, 1.0),
    zero: tuple[int, int] = (0, 0),
) -> bytes:
    return single(
        code,
        [tensor("one", first, scale[0], zero[0], kind), tensor("two", second, scale[1], zero[1], kind)],
        [tensor("out", np.broadcast_shapes(first, second), kind=BOOL)],
    )


@pytest.mark.parametrize("code", COMPARISONS)
@FEW
@given(st.tuples(scales, scales), st.tuples(zero_points, zero_points), st.booleans(), st.integers(0, 99))
def test_reals_of_int8(
    code: int, scale: tuple[float, float], zero: tuple[int, int], is_alike: bool, seed: int
) -> None:
    if is_alike:
        scale, zero = scale[:1] * 2, zero[:1] * 2
    random = np.random.default_rng(seed)
    one = random.integers(-128, 128, (3, 20), dtype=np.int8)
    two = random.integers(-128, 128, (1, 20), dtype=np.int8)
    agree(compare(code, one.shape, two.shape, TensorType.INT8, scale, zero), one, two)


@pytest.mark.parametrize("code", COMPARISONS)
@pytest.mark.parametrize("kind", [TensorType.INT32, TensorType.INT64, TensorType.FLOAT32])
@pytest.mark.parametrize("pair", [((2, 3), (2, 3)), ((1, 1, 3), (4, 2, 1))])
def test_numbers(code: int, kind: TensorType, pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    random = np.random.default_rng(1)
    one, two = (random.integers(-2, 3, shape).astype(DTYPES[kind]) for shape in pair)
    agree(compare(code, one.shape, two.shape, kind), one, two)


@pytest.mark.parametrize(
    "code",
    [
        BuiltinOperator.EQUAL,
        BuiltinOperator.NOT_EQUAL,
        BuiltinOperator.LOGICAL_AND,
        BuiltinOperator.LOGICAL_OR,
    ],
)
@FEW
@given(shapes, st.integers(0, 99))
def test_bools(code: int, pair: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    random = np.random.default_rng(seed)
    one, two = (random.integers(0, 2, shape).astype(np.bool_) for shape in pair)
    agree(compare(code, one.shape, two.shape, BOOL), one, two)


def test_logical_not() -> None:
    model = single(
        BuiltinOperator.LOGICAL_NOT, [tensor("in", (3,), kind=BOOL)], [tensor("out", (3,), kind=BOOL)]
    )
    data: npt.NDArray[Any] = np.array([True, False, True])
    assert agree(model, data) == [bytes([0, 1, 0])]


@pytest.mark.parametrize("code", COMPARISONS[2:])
def test_bools_have_no_order(code: int) -> None:
    with pytest.raises(NetworkError, match="is BOOL, must be INT8 or INT32 or INT64 or FLOAT32"):
        loaded(compare(code, (2,), (2,), BOOL))


def test_a_scale_that_tflm_aborts_at_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"tensor 0 has the scale 1\.0"):
        loaded(compare(BuiltinOperator.LESS, (2,), (2,), TensorType.INT8))


def test_one_rounding_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(-128, 128, dtype=np.int8)
    one, two = values.reshape(256, 1), values
    model = compare(BuiltinOperator.EQUAL, one.shape, two.shape, TensorType.INT8, (0.0013, 0.0011), (0, 0))
    agree(model, one, two)
    monkeypatch.setattr(comparisons, "multiply_twice_rounded", multiply_once_rounded)
    with pytest.raises(AssertionError):
        agree(model, one, two)


DTYPES = {
    TensorType.INT8: np.int8,
    TensorType.INT16: np.int16,
    TensorType.INT32: np.int32,
    TensorType.INT64: np.int64,
    TensorType.FLOAT32: np.float32,
}


@pytest.mark.parametrize("code", [BuiltinOperator.MINIMUM, BuiltinOperator.MAXIMUM])
@pytest.mark.parametrize("kind", [*DTYPES])
@pytest.mark.parametrize("pair", [((2, 3), (2, 3)), ((4, 1, 3), (2, 1)), ((2, 3, 4, 5), (1, 1, 1, 5))])
def test_extremes(code: int, kind: TensorType, pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    random = np.random.default_rng(2)
    one, two = (random.integers(-128, 128, shape).astype(DTYPES[kind]) for shape in pair)
    model = single(
        code,
        [tensor("one", one.shape, 0.5, 3, kind), tensor("two", two.shape, 0.5, 3, kind)],
        [tensor("out", np.broadcast_shapes(*pair), 0.5, 3, kind)],
    )
    agree(model, one, two)
