"""Tensors as float32, with the rounding and clamping of the wire."""

import math
import struct

import pytest

from aisrv.addons.jacdac.task.numbers import is_convertible, to_floats, to_tensor
from aisrv.model.values import TensorType
from aisrv.protocol.tensor_descriptions import TensorDescription
from tests.support.benches.jacdac_core import floats


def test_int8_is_scaled_with_halves_away_from_zero() -> None:
    tensor = TensorDescription(TensorType.INT8, (7,), 0.5, 3)
    given = floats(0, 0.25, -0.25, 0.75, 1000, -1000, math.nan)
    assert struct.unpack("7b", to_tensor(given, tensor)) == (3, 4, 2, 5, 127, -128, 3)
    assert to_floats(bytes((3, 4, 2, 5)), tensor) == floats(0, 0.5, -0.5, 1)


def test_integers_without_a_scale_are_clamped() -> None:
    tensor = TensorDescription(TensorType.UINT8, (5,))
    assert to_tensor(floats(-1, 0.5, 255.4, 300, math.inf), tensor) == bytes((0, 1, 255, 255, 255))


def test_highest_int64() -> None:
    tensor = TensorDescription(TensorType.INT64, (3,))
    given = to_tensor(floats(math.inf, -math.inf, 5), tensor)
    assert struct.unpack("<3q", given) == (2**63 - 1, -(2**63), 5)


def test_float32_crosses_as_it_is() -> None:
    tensor = TensorDescription(TensorType.FLOAT32, (3,))
    given = floats(1.1, math.inf, -0.0)
    assert to_tensor(given, tensor) == given
    assert to_floats(given, tensor) == given


@pytest.mark.parametrize("type_", [TensorType.STRING, TensorType.INT4, TensorType.COMPLEX64])
def test_types_without_numbers(type_: TensorType) -> None:
    assert not is_convertible(TensorDescription(type_, (1,)))
