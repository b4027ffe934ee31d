"""ADD and MUL in NumPy; of int8 by a table of all pairs, as two bytes are one of 65,536.

Source: "The INT8 kernel engine", section Arithmetic.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic, int16
from aisrv.addons.kernels.arithmetic import ADD_LEFT_SHIFT
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import Numbers, Words, word_scale, wrapped
from aisrv.addons.kernels.params import INT16, ElementwiseAddParams, MulParams

Array: TypeAlias = npt.NDArray[Any]
Pairwise: TypeAlias = Callable[[Words, Words], Words]
"""A function of two arrays that broadcast."""

INT8_OF_BYTES: Final = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)


def add(params: ElementwiseAddParams, numbers: Numbers) -> Kernel:
    """Prepare ADD."""
    return _kernel(params, numbers, sums(params, numbers))


def mul(params: MulParams, numbers: Numbers) -> Kernel:
    """Prepare MUL; a shorter input repeats."""
    return _kernel(params, numbers, products(params, numbers))


def sums(params: ElementwiseAddParams, numbers: Numbers, combine: np.ufunc = np.add) -> Pairwise:
    """Prepare the function of ADD: both inputs on a common scale, some bits wider, summed and scaled back.

    With `combine` np.subtract it is that of SUB.
    """
    bits = int16.ADD_LEFT_SHIFT if numbers.elements is INT16 else ADD_LEFT_SHIFT
    multipliers = arithmetic.add_multipliers(params, bits)
    first, second, total = (word_scale((each,), numbers.rounding) for each in multipliers)
    zero1, zero2 = params.input1_quant.zero_point, params.input2_quant.zero_point
    end = _end(params, numbers)
    return lambda one, two: end(total(combine(first((one - zero1) << bits), second((two - zero2) << bits))))


def products(params: MulParams, numbers: Numbers) -> Pairwise:
    """Prepare the function of MUL: the product of the values less their zero points, scaled."""
    scale = word_scale((arithmetic.mul_multiplier(params),), numbers.rounding)
    zero1, zero2 = params.input1_quant.zero_point, params.input2_quant.zero_point
    end = _end(params, numbers)
    return lambda one, two: end(scale((one - zero1) * (two - zero2)))


def _end(params: ElementwiseAddParams | MulParams, numbers: Numbers) -> Callable[[Words], Words]:
    """Add the output's zero point and clamp."""
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, numbers.elements)
    zero = params.output_quant.zero_point
    return lambda values: np.clip(wrapped(values + zero), *bounds)


def pair_table(function: Pairwise, first: Words = INT8_OF_BYTES, second: Words = INT8_OF_BYTES) -> Array:
    """Table of a function of pairs of bytes, [256 * first + second], by the values of first and second."""
    return function(first[:, None], second[None, :]).reshape(-1)


def look_up(table: Array, first: Array, second: Array, output: Array) -> Kernel:
    """Prepare a look-up of each pair of bytes; inputs of uint8 broadcast to the output."""

    def invoke() -> None:
        np.take(table, (first.astype(np.uint16) << 8) | second, out=output, mode="wrap")

    return invoke


def _kernel(params: ElementwiseAddParams | MulParams, numbers: Numbers, function: Pairwise) -> Kernel:
    shortest = min(len(params.input1), len(params.input2))
    output = numbers.array(params.output).reshape(-1, shortest)
    one, two = (numbers.array(each).reshape(-1, shortest) for each in (params.input1, params.input2))
    if numbers.elements is not INT16:
        table = pair_table(function).astype(np.int8)
        return look_up(table, one.view(np.uint8), two.view(np.uint8), output)

    def invoke() -> None:
        output[...] = function(one.astype(np.int64), two.astype(np.int64))

    return invoke
