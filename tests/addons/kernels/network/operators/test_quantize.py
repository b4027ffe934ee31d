"""CAST beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from tests.support.models.one_operator import single, tensor
from tests.support.oracles.network_runs import agree

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


BEYOND = np.array(
    [np.nan, np.inf, -np.inf, 3e38, -3e38, 127.9, 128, -128.9, -129, 4e4, -4e4, 2**31, 3e9, -3e9]
)


@pytest.mark.parametrize(
    ("output", "least", "most"),
    [
        (TensorType.INT8, -128, 127),
        (TensorType.INT16, -(1 << 15), (1 << 15) - 1),
        (TensorType.INT32, -(1 << 31), (1 << 31) - 1),
    ],
)
def test_floats_stop_at_the_ends_of_a_type(output: TensorType, least: int, most: int) -> None:
    [found] = agree(cast(TensorType.FLOAT32, output, len(BEYOND)), BEYOND.astype(np.float32))
    values = np.frombuffer(found, DTYPES[output]).tolist()
    assert values[:5] == [0, most, least, most, least]
