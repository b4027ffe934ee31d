"""QUANTIZE, DEQUANTIZE and CAST: between floats and integers, and from one quantization to another.

Source: "The INT8 kernel engine", section Arithmetic; `quantize.h`, `requantize.h`, `dequantize.h`,
`cast.cc`.
"""

import numpy as np

from aisrv.addons.kernels.arithmetic import Multiplier, Rounding, multiply_twice_rounded, quantized_multiplier
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import word_scale, wrapped
from aisrv.addons.kernels.network.operator_node import OperatorNode, same_shape
from aisrv.addons.kernels.network.operators.lookup import by_table, limits
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

_EIGHT_BITS = (TensorType.INT8, TensorType.UINT8)
_QUANTIZED = (*_EIGHT_BITS, TensorType.INT16)
_NUMBERS = (TensorType.BOOL, TensorType.INT8, TensorType.INT16, TensorType.INT32, TensorType.FLOAT32)


def quantize(node: OperatorNode) -> Kernel:
    """Prepare QUANTIZE: float32, int8, uint8, int16 or int32 to int8, uint8 or int16.

    Int8, uint8 and int16 become int32, too.
    """
    node.expect(1)
    source = node.input(0, TensorType.FLOAT32, *_QUANTIZED, TensorType.INT32)
    output = node.output(0, *_QUANTIZED, *((TensorType.INT32,) if source.tensor.type in _QUANTIZED else ()))
    same_shape(source, output)
    if source.tensor.type is TensorType.FLOAT32:
        return _from_float(source, output)
    quant, output_quant = source.quantization, output.quantization
    multiplier = quantized_multiplier(quant.scale / output_quant.scale)
    if source.tensor.type not in _EIGHT_BITS or output.tensor.type not in _EIGHT_BITS:
        return _rescaled(source, output, multiplier)
    return by_table(
        source,
        output,
        lambda value: multiply_twice_rounded(value - quant.zero_point, multiplier) + output_quant.zero_point,
    )


def _rescaled(source: NetworkTensor, output: NetworkTensor, multiplier: Multiplier) -> Kernel:
    zero, output_zero = source.quantization.zero_point, output.quantization.zero_point
    scale, (low, high) = word_scale((multiplier,), Rounding.DOUBLE), limits(output)
    read, write = source.array, output.array

    def kernel() -> None:
        write[...] = np.clip(wrapped(scale(read.astype(np.int64) - zero) + output_zero), low, high)

    return kernel


def _from_float(source: NetworkTensor, output: NetworkTensor) -> Kernel:
    quant = output.quantization
    scale, zero_point, (low, high) = np.float32(quant.scale), quant.zero_point, limits(output)
    beyond = np.float32(4 * (high - low + 1))
    read, write = source.array, output.array

    def kernel() -> None:
        # Floats may be anything: what is not a number becomes the lowest value.
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.fmin(np.fmax(read / scale, -beyond), beyond)
        rounded = np.copysign(np.floor(np.abs(steps).astype(np.float64) + 0.5), steps)
        write[...] = np.clip(rounded + zero_point, low, high)

    return kernel


def dequantize(node: OperatorNode) -> Kernel:
    """Prepare DEQUANTIZE: int8, uint8 or int16 to float32."""
    node.expect(1)
    source, output = node.input(0, *_QUANTIZED), node.output(0, TensorType.FLOAT32)
    same_shape(source, output)
    quant = source.quantization
    if source.tensor.type is TensorType.INT16:
        return _to_float(source, output)
    values = np.arange(256, dtype=np.uint8).view(source.array.dtype).astype(np.int32) - quant.zero_point
    with np.errstate(over="ignore"):
        table = np.float32(quant.scale) * values.astype(np.float32)
    index, write = source.array.view(np.uint8), output.array

    def kernel() -> None:
        np.take(table, index, out=write, mode="clip")

    return kernel


def _to_float(source: NetworkTensor, output: NetworkTensor) -> Kernel:
    scale, zero = np.float32(source.quantization.scale), source.quantization.zero_point
    read, write = source.array, output.array

    def kernel() -> None:
        with np.errstate(over="ignore"):
            np.multiply((read.astype(np.int32) - zero).astype(np.float32), scale, out=write)

    return kernel


def cast(node: OperatorNode) -> Kernel:
    """Prepare CAST: floats lose what is behind the point, and stop at the ends of a smaller type.

    What is no number becomes 0. Integers lose their upper bits, as in C.
    """
    node.expect(1)
    source, output = node.input(0, *_NUMBERS), node.output(0, *_NUMBERS)
    same_shape(source, output)
    read, write = source.array, output.array

    def cast_all() -> None:
        write[...] = read.astype(write.dtype)

    if source.tensor.type is not TensorType.FLOAT32 or write.dtype.kind != "i":
        return cast_all
    limits = np.iinfo(write.dtype)

    def cast_floats() -> None:
        # In float64, which has both ends of 32 bits.
        write[...] = np.nan_to_num(read.astype(np.float64)).clip(limits.min, limits.max)

    return cast_floats
