"""SOFTMAX in NumPy, by tables. Sources: `aisrv.addons.kernels.arithmetic`, `aisrv.addons.kernels.int16`."""

from collections.abc import Callable

import numpy as np

from aisrv.addons.kernels import arithmetic, int16
from aisrv.addons.kernels.arithmetic import SUM_SHIFT, exponential_table, reciprocal
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import Numbers, Words, word_scale
from aisrv.addons.kernels.params import INT16, SoftmaxParams

_HALF = 1 << 30


def softmax(params: SoftmaxParams, numbers: Numbers) -> Kernel:
    """Prepare SOFTMAX over rows."""
    function = (_of_int16 if numbers.elements is INT16 else _of_int8)(params, numbers)
    values = numbers.array(params.input).reshape(params.input_shape)
    output = numbers.array(params.output).reshape(params.input_shape)

    def invoke() -> None:
        wide = values.astype(np.int64)
        output[...] = function(wide - wide.max(axis=1, keepdims=True))

    return invoke


def _of_int8(params: SoftmaxParams, numbers: Numbers) -> Callable[[Words], Words]:
    table = exponential_table(params.beta, params.input_quant.scale, numbers.rounding)
    exponentials = np.array(table)
    rounded = np.array([arithmetic.rounding_shift(each, SUM_SHIFT) for each in table])

    def outputs(differences: Words) -> Words:
        totals = (rounded[-differences].sum(axis=1) & 0xFFFFFFFF).tolist()
        zeros = [32 - total.bit_length() for total in totals]
        factors = [reciprocal((total << zero) - (1 << 31)) for total, zero in zip(totals, zeros, strict=True)]
        product = (exponentials[-differences] * np.array(factors)[:, None] + _HALF) >> 31
        shift = 35 - np.array(zeros)[:, None]
        return np.asarray(np.clip(((product + (1 << (shift - 1))) >> shift) - 128, -128, 127))

    return outputs


def _of_int16(params: SoftmaxParams, numbers: Numbers) -> Callable[[Words], Words]:
    exponentials, reciprocals = np.array(int16.exponentials()), np.array(int16.reciprocals())
    scale = word_scale((int16.softmax_multiplier(params),), numbers.rounding)

    def outputs(differences: Words) -> Words:
        powers = _look_up(np.clip(scale(differences) + INT16.high, INT16.low, INT16.high), exponentials)
        total = powers.sum(axis=1, keepdims=True) & 0xFFFFFFFF
        zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
        shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
        factor = _look_up(np.clip(shifted - (1 << 15) - (1 << 16), INT16.low, INT16.high), reciprocals)
        right = 31 - zeros
        return np.asarray(np.clip((powers * factor + (1 << (right - 1))) >> right, 0, INT16.high))

    return outputs


def _look_up(values: Words, table: Words) -> Words:
    """Values of a table for int16, between two of its entries."""
    index, offset = 256 + (values >> 7), values & 0x7F
    base = table[index]
    return np.asarray(base + (((table[index + 1] - base) * offset + 64) >> 7))
