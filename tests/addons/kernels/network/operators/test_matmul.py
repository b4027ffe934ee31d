"""BATCH_MATMUL beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import matmul
from aisrv.model import TensorType
from tests.support.models.one_operator import random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

extents = st.integers(1, 6)
scales = st.floats(2**-9, 0.5, width=32)
zero_points = st.integers(-128, 127)
BATCHES = [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (1, 1)), ((1,), (4,)), ((2, 1), (2, 3))]


def product(
    first: tuple[int, ...],
    second: tuple[int, ...],
    out: tuple[int, ...],
    scales: tuple[float, ...] = (0.1, 0.1, 0.1),
    zeros: tuple[int, ...] = (0, 0, 0),
    adjoint: tuple[bool, bool] = (False, False),
) -> bytes:
    return single(
        BuiltinOperator.BATCH_MATMUL,
        [tensor("one", first, scales[0], zeros[0]), tensor("two", second, scales[1], zeros[1])],
        [tensor("out", out, scales[2], zeros[2])],
        {"adj_x": adjoint[0], "adj_y": adjoint[1]},
    )


@pytest.mark.parametrize("depth", [(1 << 17) - 1, 1 << 17])
def test_sums_of_int16_stay_in_47_bits(depth: int) -> None:
    model = single(
        BuiltinOperator.BATCH_MATMUL,
        [tensor("one", (1, depth), kind=TensorType.INT16), tensor("two", (depth, 1), kind=TensorType.INT16)],
        [tensor("out", (1, 1), kind=TensorType.INT16)],
    )
    if depth < 1 << 17:
        loaded(model)
    else:
        with pytest.raises(NetworkError, match="sums of 131072 products of int16 may leave 47 bits"):
            loaded(model)


def test_matrices_of_int16_have_no_zero_points() -> None:
    shape = (2, 2)
    model = single(
        BuiltinOperator.BATCH_MATMUL,
        [tensor("one", shape, kind=TensorType.INT16), tensor("two", shape, 1.0, 3, TensorType.INT16)],
        [tensor("out", shape, kind=TensorType.INT16)],
    )
    with pytest.raises(NetworkError, match="tensor 1 has the zero point 3, of int16 must be 0"):
        loaded(model)


@FEW
@given(
    st.sampled_from(BATCHES),
    st.tuples(extents, extents, extents),
    st.tuples(scales, scales, scales),
    st.tuples(zero_points, zero_points, zero_points),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(0, 99),
)
def test_batch_matmul(
    batches: tuple[tuple[int, ...], tuple[int, ...]],
    sizes: tuple[int, int, int],
    scales: tuple[float, ...],
    zeros: tuple[int, ...],
    adjoint: tuple[bool, bool],
    seed: int,
) -> None:
    rows, depth, columns = sizes
    first = (*batches[0], *((depth, rows) if adjoint[0] else (rows, depth)))
    second = (*batches[1], *((columns, depth) if adjoint[1] else (depth, columns)))
    out = (*np.broadcast_shapes(*batches), rows, columns)
    model = product(first, second, out, scales, zeros, adjoint)
    agree(model, random_int8(first, seed), random_int8(second, seed + 1))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((2, 3), (4, 2), "rows of 3 elements do not multiply columns of 4"),
        ((3,), (3, 2), "no matrices"),
        ((2, 1, 3), (3, 3, 1), r"batches of shapes \[2\] and \[3\] do not broadcast"),
        ((1, 3), (3, 1), r"has shape \[2, 2\], expected \[1, 1\]"),
    ],
)
def test_shapes_that_do_not_multiply_are_refused(
    first: tuple[int, ...], second: tuple[int, ...], message: str
) -> None:
    with pytest.raises(NetworkError, match=message):
        loaded(product(first, second, (2, 2)))


def test_a_product_of_scales_that_is_off_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = product((40, 60), (60, 40), (40, 40), (0.1, 0.3, 97.3))
    data = random_int8((40, 60)), random_int8((60, 40), 1)
    agree(model, *data)
    monkeypatch.setattr(matmul, "multiply_scales", lambda one, two, _: one * two * (1 + 2**-12))
    with pytest.raises(AssertionError):
        agree(model, *data)
