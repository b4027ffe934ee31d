"""Models whose outputs tell whether two scales are multiplied in double precision or in float32.

A product of scales in float32 is off by up to 2**-24 of it. So each model has the sums around those at which
an output goes from one number to the next, and sums so large that this place moves by more than one.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.model import TensorType
from aisrv.model.values import Quantization, Tensor
from tests.support.models.one_operator import constant, single, tensor

Data = npt.NDArray[Any]

FIRST: Final = float32(0.0137)
SECOND: Final = float32(0.0191)
"""Scales whose product in float32 is off by much."""

_WIDEST: Final = 127


def _sums(product: float, output_scale: float) -> list[int]:
    """Whole numbers around which outputs change, for outputs from 40 to 100."""
    middles = [round((level + 0.5) * output_scale / product) for level in range(40, 100)]
    return [middle + step for middle in middles for step in range(-3, 4)]


def fully_connected(kind: TensorType) -> tuple[bytes, list[Data]]:
    """FULLY_CONNECTED, the sums of which are its biases."""
    output_scale = float32(FIRST * SECOND * 3e6)
    biases = _sums(FIRST * SECOND, output_scale)
    model = single(
        BuiltinOperator.FULLY_CONNECTED,
        [
            tensor("in", (1, 1), FIRST, 0, kind),
            constant("weights", [[0]] * len(biases), np.int8, Quantization.per_tensor(SECOND, 0)),
            constant("bias", biases, np.int32, Quantization.per_tensor(float32(FIRST * SECOND), 0)),
        ],
        [tensor("out", (1, len(biases)), output_scale, 0, kind)],
    )
    return model, [np.zeros((1, 1), np.int8 if kind is TensorType.INT8 else np.int16)]


def batch_matmul() -> tuple[bytes, list[Data]]:
    """BATCH_MATMUL of a row with columns that make the sums: 127 times most, and once the rest."""
    deep = 3000
    output_scale = float32(FIRST * SECOND * deep * _WIDEST)
    sums = _sums(FIRST * SECOND, output_scale)
    left = np.full((1, deep + 1), _WIDEST, np.int8)
    left[0, -1] = 1
    right = np.zeros((deep + 1, len(sums)), np.int8)
    for column, total in enumerate(sums):
        many, right[-1, column] = divmod(total, _WIDEST)
        each, more = divmod(many, deep)
        right[:deep, column] = each
        right[:more, column] += 1
    model = single(
        BuiltinOperator.BATCH_MATMUL,
        [tensor("one", left.shape, FIRST), tensor("two", right.shape, SECOND)],
        [tensor("out", (1, len(sums)), output_scale)],
    )
    return model, [left, right]


def svdf() -> tuple[bytes, list[Data]]:
    """SVDF, the sums of which are its biases."""
    output_scale = float32(FIRST * SECOND * 3e6)
    biases = _sums(FIRST * SECOND, output_scale)
    units = len(biases)
    state = Quantization.per_tensor(FIRST, 0)
    model = single(
        BuiltinOperator.SVDF,
        [
            tensor("in", (1, 1)),
            constant("features", [[0]] * units, np.int8, Quantization.per_tensor(1.0, 0)),
            constant("times", [[0]] * units, np.int16, Quantization.per_tensor(SECOND, 0)),
            constant("bias", biases, np.int32, Quantization.per_tensor(float32(FIRST * SECOND), 0)),
            Tensor("state", (1, units), TensorType.INT16, state, is_variable=True),
        ],
        [tensor("out", (1, units), output_scale)],
        {"rank": 1},
    )
    return model, [np.zeros((1, 1), np.int8)]
