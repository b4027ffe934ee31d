"""CAST beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from tests.support.graph_runs import agree, loaded, run_graph
from tests.support.models import single, tensor

DTYPES = {
    TensorType.BOOL: np.bool_,
    TensorType.INT8: np.int8,
    TensorType.INT16: np.int16,
    TensorType.INT32: np.int32,
    TensorType.FLOAT32: np.float32,
}
NUMBERS = np.array([0, 1, -1, 2.75, -2.75, 100, -128, 127])


def cast(source: TensorType, output: TensorType, count: int) -> bytes:
    return single(
        BuiltinOperator.CAST, [tensor("in", (count,), kind=source)], [tensor("out", (count,), kind=output)]
    )


@pytest.mark.parametrize("source", [*DTYPES])
@pytest.mark.parametrize("output", [*DTYPES])
def test_cast(source: TensorType, output: TensorType) -> None:
    agree(cast(source, output, len(NUMBERS)), NUMBERS.astype(DTYPES[source]))


def test_integers_lose_their_upper_bits() -> None:
    data = np.array([300, -300, 1 << 30], np.int32)
    assert agree(cast(TensorType.INT32, TensorType.INT8, 3), data) == [bytes([44, 212, 0])]


def test_floats_that_no_integer_stands_for_are_no_error() -> None:
    data = np.array([np.nan, np.inf, -np.inf, 3e38], np.float32)
    assert run_graph(loaded(cast(TensorType.FLOAT32, TensorType.INT8, 4)), [data]) == [bytes(4)]
