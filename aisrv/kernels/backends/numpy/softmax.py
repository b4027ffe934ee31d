"""SOFTMAX by a table of exponentials: long rows and batches in arrays, a short row in plain integers.

Source: "The INT8 kernel engine", section Arithmetic, SOFTMAX.
"""

from typing import Final

import numpy as np

from aisrv.kernels import arithmetic, softmax
from aisrv.kernels.arithmetic import INT8_MAX, INT8_MIN, INT32_MAX, Rounding
from aisrv.kernels.backend import Kernel
from aisrv.kernels.params import SoftmaxParams

PLAIN_VALUES: Final = 32
"""So many values are faster in plain integers."""

_SUM_SHIFT: Final = 12
_HALF: Final = 1 << 30


def softmax_rows(params: SoftmaxParams, rounding: Rounding) -> Kernel:
    """Prepare SOFTMAX."""
    table = softmax.exponential_table(params.beta, params.input_quant.scale, rounding)
    batches, classes = params.input_shape
    return _plain(params, table) if batches * classes <= PLAIN_VALUES else _arrays(params, table)


def reciprocal(argument: int) -> int:
    """V(a) of the source, for 0 <= a < 2**31, where nothing on the way leaves an int32."""
    half = (argument + (1 << 31)) // 2
    x = 1515870810 + ((half * -1010580540 + _HALF) >> 31)
    x += (x * ((1 << 29) - ((half * x + _HALF) >> 31)) + _HALF) >> 31 << 2
    x += (x * ((1 << 29) - ((half * x + _HALF) >> 31)) + _HALF) >> 31 << 2
    x += (x * ((1 << 29) - ((half * x + _HALF) >> 31)) + _HALF) >> 31 << 2
    return min(x << 1, INT32_MAX)


def _plain(params: SoftmaxParams, table: tuple[int, ...]) -> Kernel:
    batches, classes = params.input_shape
    source, target = params.input, params.output.cast("B")
    rounded = tuple(arithmetic.rounding_shift(each, _SUM_SHIFT) for each in table)
    starts = range(0, batches * classes, classes)

    def invoke() -> None:
        for start in starts:
            row = source[start : start + classes].tolist()
            largest = max(row)
            differences = [largest - value for value in row]
            total = 0
            for each in differences:
                total += rounded[each]
            zeros = 32 - total.bit_length()
            factor, shift = reciprocal((total << zeros) - (1 << 31)), 35 - zeros
            # No factor is negative, so half away from zero is half up; 256 is clamped to 255.
            half = 1 << (shift - 1)
            outputs = [(((table[each] * factor + _HALF) >> 31) + half) >> shift for each in differences]
            target[start : start + classes] = bytes([(each - (each >> 8)) ^ 128 for each in outputs])

    return invoke


def _arrays(params: SoftmaxParams, table: tuple[int, ...]) -> Kernel:
    batches, classes = params.input_shape
    exponentials = np.array(table, np.int64)
    rounded = np.array([arithmetic.rounding_shift(each, _SUM_SHIFT) for each in table], np.int64)
    values = np.frombuffer(params.input, np.int8).reshape(batches, classes)
    output = np.frombuffer(params.output, np.int8).reshape(batches, classes)
    index, wide = np.empty(values.shape, np.intp), np.empty(values.shape, np.int64)
    factor, shift, half = (np.empty((batches, 1), np.int64) for _ in range(3))

    def invoke() -> None:
        largest = values.max(axis=1, keepdims=True)
        np.subtract(largest, values, index, dtype=np.intp)
        rounded.take(index, None, wide, "wrap")
        for row, total in enumerate(wide.sum(axis=1).tolist()):
            word = total & 0xFFFFFFFF
            zeros = 32 - word.bit_length()
            factor[row] = softmax.reciprocal((word << zeros) - (1 << 31))
            shift[row] = 35 - zeros
        np.left_shift(1, shift - 1, half)
        exponentials.take(index, None, wide, "wrap")
        np.multiply(wide, factor, wide)
        np.add(wide, _HALF, wide)
        np.right_shift(wide, 31, wide)
        np.add(wide, half, wide)
        np.right_shift(wide, shift, wide)
        np.add(wide, INT8_MIN, wide)
        np.clip(wide, INT8_MIN, INT8_MAX, wide)
        output[...] = wide

    return invoke
