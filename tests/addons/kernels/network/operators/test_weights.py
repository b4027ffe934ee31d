"""Weights of which two share a byte."""

import pytest

from aisrv.addons.kernels.network.operators.weights import unpack_int4


@pytest.mark.parametrize(
    ("packed", "count", "values"),
    [
        ("10", 2, [0, 1]),
        ("10", 1, [0]),
        ("87", 2, [7, -8]),
        ("f0 0f", 4, [0, -1, -1, 0]),
        ("21 43 65", 5, [1, 2, 3, 4, 5]),
    ],
)
def test_the_lower_half_comes_first(packed: str, count: int, values: list[int]) -> None:
    assert unpack_int4(memoryview(bytes.fromhex(packed)).cast("b"), count).tolist() == values


def test_unpacked_weights_are_read_only_signed_bytes() -> None:
    weights = unpack_int4(memoryview(b"\x10").cast("b"), 2)
    assert (weights.format, weights.readonly) == ("b", True)
