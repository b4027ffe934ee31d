"""Operators from one value to one value: of int8 by a table of 256 bytes, made once in plain integers.

Source: TensorFlow Lite's reference kernels (`integer_ops/logistic.h`, `integer_ops/tanh.h`,
`integer_ops/leaky_relu.h`, `hard_swish.h`) and the fixed-point functions of gemmlowp (`fixedpoint.h`).
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.arithmetic import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    INT32_MIN,
    Multiplier,
    Rounding,
    difference_over_sum,
    doubling_high_multiply,
    exponential,
    float32,
    multiply_twice_rounded,
    quantized_multiplier,
    reciprocal,
    rounding_shift,
    saturate32,
)
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.elementwise import look_up
from aisrv.addons.kernels.backends.numpy.words import word_scale
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, broadcast_view, same_shape, symmetric
from aisrv.addons.kernels.network.operators.sigmoid_tables import (
    OUTPUT_SCALE,
    Argument,
    sigmoid_table,
    tanh_table,
)
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.params import INT16, QuantParam
from aisrv.addons.kernels.recurrent import Words
from aisrv.model import TensorType

_LIMITS: Final = {
    TensorType.INT8: (INT8_MIN, INT8_MAX),
    TensorType.UINT8: (0, 255),
    TensorType.INT16: (INT16.low, INT16.high),
    TensorType.INT32: (INT32_MIN, INT32_MAX),
}
_INT16_MAX: Final = (1 << 15) - 1
_INT16_MIN: Final = -(1 << 15)


def by_table(source: NetworkTensor, output: NetworkTensor, function: Callable[[int], int]) -> Kernel:
    """A kernel that puts each 8-bit value through a function, clamped to the output's type."""
    low, high = limits(output)
    signed = source.tensor.type is TensorType.INT8
    table = bytes(
        max(low, min(high, function(byte - 256 if signed and byte > INT8_MAX else byte))) & 0xFF
        for byte in range(256)
    )
    read, write = source.buffer.cast("B"), output.buffer.cast("B")

    def kernel() -> None:
        write[:] = bytes(read).translate(table)

    return kernel


def by_pairs(
    one: NetworkTensor, two: NetworkTensor, output: NetworkTensor, table: npt.NDArray[Any]
) -> Kernel:
    """A kernel that looks up pairs of bytes, [256 * first + second], of inputs that broadcast."""
    first, second = (broadcast_view(each, output).view(np.uint8) for each in (one, two))
    return look_up(table, first, second, output.array)


def int8_table(function: Callable[[int], int]) -> npt.NDArray[np.int64]:
    """Table of a function of int8, by the value's byte."""
    return np.array([function(byte - 256 if byte > INT8_MAX else byte) for byte in range(256)], np.int64)


def limits(tensor: NetworkTensor) -> tuple[int, int]:
    """Lowest and highest value of an integer type."""
    return _LIMITS[tensor.tensor.type]


def unary(
    node: OperatorNode, *types: TensorType
) -> tuple[NetworkTensor, NetworkTensor, QuantParam, QuantParam]:
    """Input and output of an operator on single values (int8 unless types are given), their quantization."""
    node.expect(1)
    source = node.input(0, *(types or (TensorType.INT8,)))
    output = node.output(0, source.tensor.type)
    same_shape(source, output)
    return source, output, source.quantization, output.quantization


# LOGISTIC and TANH.

_NEAR_ENOUGH: Final = 1e-3
"""Tolerance of a scale's power of two, as in TensorFlow Lite Micro."""
_INTEGER_BITS: Final = 4
_FRACTION_BITS: Final = 31 - _INTEGER_BITS
_QUARTER: Final = 1 << (_FRACTION_BITS - 2)
_EXP_OF_POWERS: Final = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401)
"""exp(-1/4), exp(-1/2), ... exp(-8)."""


def logistic(node: OperatorNode) -> Kernel:
    """Prepare LOGISTIC: the output's scale is 1/256, its zero point -128; of int16, 1/32768 and 0."""
    if _is_int16(node):
        return _by_words(node, sigmoid_table, 0)
    return _saturating(node, QuantParam(1 / 256, INT8_MIN), _logistic)


def tanh(node: OperatorNode) -> Kernel:
    """Prepare TANH: the output's scale is 1/128, of int16 1/32768; its zero point is 0."""
    if _is_int16(node):
        return _by_words(node, tanh_table, 0, 1)
    return _saturating(node, QuantParam(1 / 128, 0), _tanh)


def _is_int16(node: OperatorNode) -> bool:
    return bool(node.inputs) and node.input(0).tensor.type is TensorType.INT16


def _by_words(node: OperatorNode, table_of: Callable[[Argument], Words], *powers: int) -> Kernel:
    """Prepare a function of int16 by a table of all its values; `powers` as of `Argument.of_scale`."""
    source, output, quant, output_quant = unary(node, TensorType.INT16)
    symmetric(source, output)
    if abs(math.log2(output_quant.scale / OUTPUT_SCALE)) >= _NEAR_ENOUGH:
        raise NetworkError(f"{output} must have scale 1/32768")
    table = table_of(Argument.of_scale(quant.scale, *powers)).astype(np.int16)
    index, write = source.array.view(np.uint16), output.array

    def kernel() -> None:
        np.take(table, index, out=write, mode="wrap")

    return kernel


def _saturating(node: OperatorNode, needed: QuantParam, function: Callable[[int], int]) -> Kernel:
    """Prepare a function of reals with 27 bits after the point, the results having 31; far out it is flat."""
    source, output, quant, output_quant = unary(node)
    if output_quant != needed:
        raise NetworkError(
            f"{output} must have scale 1/{1 / needed.scale:.0f} and zero point {needed.zero_point}"
        )
    # The larger the scale, the fewer differences have a slope; from 8 on, none has.
    exponent = math.frexp(quant.scale * (1 << _FRACTION_BITS))[1]
    radius = math.floor(min(((1 << _INTEGER_BITS) - 1) * 2.0 ** (_FRACTION_BITS - exponent), 256.0))
    multiplier = quantized_multiplier(quant.scale * (1 << _FRACTION_BITS) if radius else 1.0)
    shift = 31 + math.frexp(needed.scale)[1] - 1

    def value(integer: int) -> int:
        difference = integer - quant.zero_point
        if difference <= -radius:
            return INT8_MIN
        if difference >= radius:
            return INT8_MAX
        result = function(multiply_twice_rounded(difference, multiplier))
        return rounding_shift(result, shift) + needed.zero_point

    return by_table(source, output, value)


def _logistic(argument: int) -> int:
    """1/(1 + exp(-x)) of a real with 27 bits after the point; the result has 31."""
    if argument == 0:
        return 1 << 30
    positive = reciprocal(_exponential(-abs(argument)))
    return positive if argument > 0 else INT32_MAX - positive


def _tanh(argument: int) -> int:
    """Tanh of a real with 27 bits after the point; the result has 31."""
    if argument == 0:
        return 0
    # Twice the argument has 26 bits after the point.
    positive = difference_over_sum(exponential(-abs(argument)))
    return positive if argument > 0 else -positive


def _exponential(argument: int) -> int:
    """Exponential of a real below 0 with 27 bits after the point, where SOFTMAX has 26; the result has 31."""
    product = doubling_high_multiply
    remainder = (argument & (_QUARTER - 1)) - _QUARTER
    x = saturate32(remainder << _INTEGER_BITS) + (1 << 28)
    x2 = product(x, x)
    x3, x4 = product(x2, x), product(x2, x2)
    tail = rounding_shift(product(rounding_shift(x4, 2) + x3, 715827883) + x2, 1)
    result = 1895147668 + product(1895147668, x + tail)
    for bit, factor in enumerate(_EXP_OF_POWERS, start=_FRACTION_BITS - 2):
        if (remainder - argument) >> bit & 1:
            result = product(result, factor)
    return result


# LEAKY_RELU.


def leaky_relu(node: OperatorNode) -> Kernel:
    """Prepare LEAKY_RELU, of int8 or int16: one multiplier for what is positive, one for what is not."""
    source, output, quant, output_quant = unary(node, TensorType.INT8, TensorType.INT16)
    alpha = node.options.real("alpha")
    if not math.isfinite(alpha):
        raise NetworkError(f"alpha is {alpha}")
    identity = _signed_multiplier(quant.scale / output_quant.scale)
    slope = _signed_multiplier(quant.scale * alpha / output_quant.scale)

    if source.tensor.type is TensorType.INT16:
        return _leaky_relu_int16(source, output, identity, slope)

    def value(integer: int) -> int:
        difference = integer - quant.zero_point
        return output_quant.zero_point + multiply_twice_rounded(
            difference, identity if difference >= 0 else slope
        )

    return by_table(source, output, value)


def _leaky_relu_int16(
    source: NetworkTensor, output: NetworkTensor, identity: Multiplier, slope: Multiplier
) -> Kernel:
    zero, output_zero = source.quantization.zero_point, output.quantization.zero_point
    positive, negative = (word_scale((each,), Rounding.DOUBLE) for each in (identity, slope))
    read, write = source.array, output.array

    def kernel() -> None:
        values = read.astype(np.int64) - zero
        scaled = np.where(values >= 0, positive(values), negative(values)) + output_zero
        write[...] = np.clip(scaled, INT16.low, INT16.high)

    return kernel


def _signed_multiplier(real: float) -> Multiplier:
    mantissa, shift = quantized_multiplier(abs(real))
    return Multiplier(-mantissa if real < 0 else mantissa, shift)


# HARD_SWISH.


def hard_swish(node: OperatorNode) -> Kernel:
    """Prepare HARD_SWISH: x * relu6(x + 3) / 6 in 16 bits."""
    source, output, quant, output_quant = unary(node)
    fine_scale = float32(float32(1 / 128) * quant.scale)
    to_output = quantized_multiplier(fine_scale / output_quant.scale)
    # A 16-bit value that stands for 3 where it is largest.
    to_relu = quantized_multiplier(fine_scale / float32(3 / 32768))
    if to_output.shift > 0:
        raise NetworkError(
            f"the input's scale {quant.scale} is too large for the output's {output_quant.scale}"
        )
    output_factor, relu_factor = _upper_half(to_output.mantissa), _upper_half(to_relu.mantissa)
    shift = to_relu.shift

    def value(integer: int) -> int:
        fine = (integer - quant.zero_point) << 7
        relu = _saturate16(fine << min(shift - 1, 16)) if shift > 0 else fine
        relu = _doubling_high_multiply16(relu, relu_factor)
        if shift > 0:
            relu = _saturate16(relu << 1)
        relu = (rounding_shift(relu, max(-shift, 0)) + (1 << 15)) >> 1
        unscaled = _doubling_high_multiply16(fine, output_factor)
        product = abs(relu * unscaled) >> 15
        product = product if unscaled >= 0 else -product
        return rounding_shift(product, -to_output.shift) + output_quant.zero_point

    return by_table(source, output, value)


def _upper_half(mantissa: int) -> int:
    return min((mantissa + (1 << 15)) >> 16, _INT16_MAX)


def _saturate16(value: int) -> int:
    return max(_INT16_MIN, min(_INT16_MAX, value))


def _doubling_high_multiply16(a: int, b: int) -> int:
    return min((a * b + (1 << 14)) >> 15, _INT16_MAX)
