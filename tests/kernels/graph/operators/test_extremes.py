"""MINIMUM and MAXIMUM beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from tests.support.graph_runs import agree
from tests.support.models import single, tensor

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
