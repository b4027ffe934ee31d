"""QUANTIZE and DEQUANTIZE: between floats and 8 bits, and from one quantization to another.

Source: "The INT8 kernel engine", section Arithmetic; `quantize.h`, `requantize.h`, `dequantize.h`.
"""

import numpy as np

from aisrv.kernels.arithmetic import multiply_twice_rounded, quantized_multiplier
from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode, same_shape
from aisrv.kernels.graph.operators.lookup import by_table, limits
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.model import TensorType

_EIGHT_BITS = (TensorType.INT8, TensorType.UINT8)


def quantize(node: OperatorNode) -> Kernel:
    """Prepare QUANTIZE: float32, int8 or uint8 to int8 or uint8."""
    node.expect(1)
    source, output = node.input(0, TensorType.FLOAT32, *_EIGHT_BITS), node.output(0, *_EIGHT_BITS)
    same_shape(source, output)
    if source.tensor.type is TensorType.FLOAT32:
        return _from_float(source, output)
    quant, output_quant = source.quantization, output.quantization
    multiplier = quantized_multiplier(quant.scale / output_quant.scale)
    return by_table(
        source,
        output,
        lambda value: multiply_twice_rounded(value - quant.zero_point, multiplier) + output_quant.zero_point,
    )


def _from_float(source: GraphTensor, output: GraphTensor) -> Kernel:
    quant = output.quantization
    scale, zero_point, (low, high) = np.float32(quant.scale), quant.zero_point, limits(output)
    read, write = source.array, output.array

    def kernel() -> None:
        # Floats may be anything: what is no number becomes the lowest value.
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.fmin(np.fmax(read / scale, np.float32(-1024)), np.float32(1024))
        rounded = np.copysign(np.floor(np.abs(steps).astype(np.float64) + 0.5), steps)
        write[...] = np.clip(rounded + zero_point, low, high)

    return kernel


def dequantize(node: OperatorNode) -> Kernel:
    """Prepare DEQUANTIZE: int8 or uint8 to float32."""
    node.expect(1)
    source, output = node.input(0, *_EIGHT_BITS), node.output(0, TensorType.FLOAT32)
    same_shape(source, output)
    quant = source.quantization
    values = np.arange(256, dtype=np.uint8).view(source.array.dtype).astype(np.int32) - quant.zero_point
    with np.errstate(over="ignore"):
        table = np.float32(quant.scale) * values.astype(np.float32)
    index, write = source.array.view(np.uint8), output.array

    def kernel() -> None:
        np.take(table, index, out=write, mode="clip")

    return kernel
