"""ADD and MUL in NumPy by a table of all pairs of bytes.

Two int8 are one of 65,536 pairs, so what an operator makes of each is computed once. Source: "The INT8 kernel
engine", section Arithmetic.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic
from aisrv.kernels.arithmetic import ADD_LEFT_SHIFT, Multiplier, Rounding
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.requantize import Workspace
from aisrv.kernels.backends.numpy.words import wrapped
from aisrv.kernels.params import ElementwiseAddParams, MulParams

_VALUES: Final = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)
"""The int8 of each byte."""


def add(params: ElementwiseAddParams, rounding: Rounding, workspace: Workspace) -> Kernel:
    """Prepare ADD."""
    return _pairs(params, sums_table(params, rounding), workspace)


def mul(params: MulParams, rounding: Rounding, workspace: Workspace) -> Kernel:
    """Prepare MUL."""
    return _pairs(params, products_table(params, rounding), workspace)


def sums_table(params: ElementwiseAddParams, rounding: Rounding) -> npt.NDArray[np.int8]:
    """ADD of every pair of bytes: [256 * first + second]."""
    multipliers = arithmetic.add_multipliers(params)

    def scaled(zero: int, multiplier: Multiplier) -> npt.NDArray[np.int64]:
        values = (_VALUES - zero) << ADD_LEFT_SHIFT
        _rescale(values, multiplier, rounding)
        return values

    first = scaled(params.input1_quant.zero_point, multipliers.input1)
    second = scaled(params.input2_quant.zero_point, multipliers.input2)
    return _outputs(params, np.add.outer(first, second), multipliers.output, rounding)


def products_table(params: MulParams, rounding: Rounding) -> npt.NDArray[np.int8]:
    """MUL of every pair of bytes: [256 * first + second]."""
    first, second = _VALUES - params.input1_quant.zero_point, _VALUES - params.input2_quant.zero_point
    products = np.multiply.outer(first, second)
    return _outputs(params, products, arithmetic.mul_multiplier(params), rounding)


def _outputs(
    params: ElementwiseAddParams | MulParams,
    values: npt.NDArray[np.int64],
    multiplier: Multiplier,
    rounding: Rounding,
) -> npt.NDArray[np.int8]:
    low, high = arithmetic.activation_bounds(params.activation, params.output_quant)
    _rescale(values, multiplier, rounding)
    values += params.output_quant.zero_point
    return np.clip(wrapped(values), low, high).astype(np.int8).reshape(-1)


def _rescale(values: npt.NDArray[np.int64], multiplier: Multiplier, rounding: Rounding) -> None:
    """M(x, m, s) of values below 2**30, in place: a model has a table for each of its operators."""
    mantissa, shift = multiplier
    if rounding is Rounding.SINGLE:
        values *= mantissa
        _shift(values, 31 - shift, 0)
        return
    if shift > 0:
        values[...] = wrapped(values << shift)
    values *= mantissa
    values += 1 << 30
    values >>= 31
    _shift(values, -shift, values < 0)


def _shift(values: npt.NDArray[np.int64], bits: int, less: npt.NDArray[np.bool_] | int) -> None:
    """Divide by 2**bits, half up, of those with one less half down."""
    if bits > 0:
        values += 1 << (bits - 1)
        values -= less
        values >>= bits


def _pairs(
    params: ElementwiseAddParams | MulParams, table: npt.NDArray[np.int8], workspace: Workspace
) -> Kernel:
    """Look up table[256 * a + b] for each pair; a shorter input repeats."""
    output = np.frombuffer(params.output, np.int8)
    first, second = np.frombuffer(params.input1, np.uint8), np.frombuffer(params.input2, np.uint8)
    shortest = max(1, min(len(first), len(second)))
    pairs = workspace.array("pairs", len(output), "<u2")
    index = workspace.array("index", len(output), np.intp)
    low: npt.NDArray[np.uint8] = pairs.view(np.uint8)[0::2]
    high: npt.NDArray[np.uint8] = pairs.view(np.uint8)[1::2]
    if len(first) != len(second):
        low, high = low.reshape(-1, shortest), high.reshape(-1, shortest)
        first, second = first.reshape(-1, shortest), second.reshape(-1, shortest)
    take = table.take

    def invoke() -> None:
        high[...] = first
        low[...] = second
        index[...] = pairs
        take(index, None, output, "wrap")  # which does not check, and never meets another index

    return invoke
