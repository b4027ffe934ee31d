"""SUM, REDUCE_MAX and ARG_MAX beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.network.errors import NetworkError
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

I32, F32 = TensorType.INT32, TensorType.FLOAT32
SHAPE = (2, 5, 7, 3)
scales = st.floats(2**-9, 0.5, width=32)
zero_points = st.integers(-128, 127)
axes = st.lists(st.integers(-4, 3), min_size=1, max_size=3, unique_by=lambda axis: axis % 4)


def reduction(
    code: int, axes: list[int], keep: bool, scales: tuple[float, float], zeros: tuple[int, int]
) -> bytes:
    out = np.zeros(SHAPE).sum(axis=tuple(axes), keepdims=keep).shape
    return single(
        code,
        [tensor("in", SHAPE, scales[0], zeros[0]), constant("axes", axes)],
        [tensor("out", out, scales[1], zeros[1])],
        {"keep_dims": keep},
    )


@FEW
@given(axes, st.booleans(), st.tuples(scales, scales), st.tuples(zero_points, zero_points), st.integers(0, 9))
def test_sum(
    axes: list[int], keep: bool, scales: tuple[float, float], zeros: tuple[int, int], seed: int
) -> None:
    agree(reduction(BuiltinOperator.SUM, axes, keep, scales, zeros), random_int8(SHAPE, seed))


@FEW
@given(axes, st.booleans(), scales, zero_points, st.integers(0, 9))
def test_reduce_max(axes: list[int], keep: bool, scale: float, zero: int, seed: int) -> None:
    model = reduction(BuiltinOperator.REDUCE_MAX, axes, keep, (scale, scale), (zero, zero))
    agree(model, random_int8(SHAPE, seed))


def test_reduce_max_of_tensors_quantized_differently_is_refused() -> None:
    with pytest.raises(NetworkError, match="tensor 0 and tensor 2 are quantized differently"):
        loaded(reduction(BuiltinOperator.REDUCE_MAX, [1], True, (0.1, 0.2), (0, 0)))


def test_reduce_max_of_floats() -> None:
    data = np.random.default_rng(3).normal(size=(2, 3, 4)).astype(np.float32)
    model = single(
        BuiltinOperator.REDUCE_MAX,
        [tensor("in", data.shape, kind=F32), constant("axes", [2])],
        [tensor("out", (2, 3), kind=F32)],
    )
    assert agree(model, data) == [data.max(axis=2).tobytes()]


@FEW
@given(st.integers(-4, 3), st.booleans(), st.integers(0, 9))
def test_arg_max(axis: int, is_float: bool, seed: int) -> None:
    # Few values, so that many are equal to the largest.
    data = np.random.default_rng(seed).integers(-2, 2, SHAPE, dtype=np.int8)
    data = data.astype(np.float32) if is_float else data
    model = single(
        BuiltinOperator.ARG_MAX,
        [tensor("in", SHAPE, 0.5, 3, F32 if is_float else TensorType.INT8), constant("axis", [axis])],
        [tensor("out", data.max(axis=axis).shape, kind=I32)],
        {"output_type": I32},
    )
    assert agree(model, data) == [data.argmax(axis=axis).astype(np.int32).tobytes()]


def test_arg_max_along_two_dimensions_is_refused() -> None:
    model = single(
        BuiltinOperator.ARG_MAX,
        [tensor("in", (2, 3)), constant("axis", [0, 1])],
        [tensor("out", (1,), kind=I32)],
    )
    with pytest.raises(NetworkError, match=r"the axes are \[0, 1\], must be one"):
        loaded(model)
