"""Weights and biases of layers: constants of the file, unpacked where two of them share a byte."""

from typing import Final

import numpy as np

from aisrv.addons.kernels.errors import InternalError
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.params import Bias, Buffer, PerChannelQuantParam, QuantParam
from aisrv.model import TensorType

WEIGHTS: Final = (TensorType.INT8, TensorType.INT4)
"""The types of weights that kernels of layers read."""


def layer_weights(tensor: NetworkTensor) -> Buffer:
    """Return weights as signed bytes: those of 4 bits unpacked, which all backends compute as int8."""
    if tensor.tensor.type is TensorType.INT4:
        return unpack_int4(tensor.buffer, int(np.prod(tensor.shape)))
    return tensor.buffer


def unpack_int4(packed: Buffer, count: int) -> Buffer:
    """Unpack so many signed values of 4 bits, the lower half of each byte first."""
    data = np.frombuffer(packed, np.uint8)
    values = np.empty(2 * len(data), np.int8)
    # Up and down again by 4 bits, which copies the sign.
    values[0::2] = (data << 4).view(np.int8) >> 4
    values[1::2] = data.view(np.int8) >> 4
    return memoryview(values[:count].data).cast("B").cast("b").toreadonly()


def weights_quantization(weights: NetworkTensor) -> tuple[QuantParam, PerChannelQuantParam | None]:
    """Return the scale of weights, and where there is one for each channel, those of all channels."""
    quantization = weights.tensor.quantization
    if quantization is None:
        raise NetworkError(f"weights ({weights}) are not quantized")
    if not quantization.is_per_channel:
        return weights.quantization, None
    zero_points = quantization.zero_points
    if len(zero_points) == 1:
        zero_points *= len(quantization.scales)
    if any(zero_points):
        raise InternalError("weights with a scale for each channel must have zero points of 0")
    return (
        QuantParam(quantization.scales[0], 0),
        PerChannelQuantParam(quantization.scales, zero_points, quantization.dimension),
    )


def layer_bias(node: OperatorNode, data: int = 0, number: int = 2) -> Bias | None:
    """Return the bias, by its number: int32, beside int16 activations int64 as well; None without one."""
    wide = node.input(data).tensor.type is TensorType.INT16
    types = (TensorType.INT32, TensorType.INT64) if wide else (TensorType.INT32,)
    bias = node.optional_input(number, *types)
    if bias is None:
        return None
    return node.constant(number).buffer.cast("B").cast("i" if bias.tensor.type is TensorType.INT32 else "q")


def transposed_bias(node: OperatorNode) -> Bias | None:
    """Return the bias of TRANSPOSE_CONV: beside int16 activations int64, also of a file's int16."""
    if node.input(2).tensor.type is not TensorType.INT16:
        return layer_bias(node, 2, 3)
    if node.optional_input(3, TensorType.INT64, TensorType.INT16) is None:
        return None
    wide = node.constant(3).array.reshape(-1).astype(np.int64)
    return memoryview(wide.data).cast("B").cast("q").toreadonly()
