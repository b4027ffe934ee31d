"""Products of matrices of float32: FULLY_CONNECTED and BATCH_MATMUL.

Sources: `fully_connected.h`, `batch_matmul.h` of TensorFlow Lite.
"""

import math

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, expect_shape
from aisrv.addons.kernels.network.operators.floats.tensors import (
    Floats,
    finish,
    float_input,
    float_output,
    laid_out,
    quiet,
)
from aisrv.addons.kernels.network.operators.matmul import matrices
from aisrv.model import TensorType


def fully_connected(node: OperatorNode) -> Kernel:
    """Prepare FULLY_CONNECTED: rows of the input are as long as those of the weights, whatever its shape."""
    node.expect(3, optional=1)
    source, weights, output = float_input(node), float_input(node, 1), float_output(node)
    if node.options.integer("weights_format"):
        raise NetworkError("weights are shuffled: only the default format can be read")
    if len(weights.shape) != 2:
        raise NetworkError(f"weights have shape {list(weights.shape)}, must have two dimensions")
    outputs, inputs = weights.shape
    rows, beyond = divmod(math.prod(source.shape), inputs)
    if beyond or math.prod(output.shape) != rows * outputs:
        raise InvalidShape(
            f"weights of {outputs} by {inputs} make no {list(output.shape)} of {list(source.shape)}"
        )
    add, write, matrix = bias(node, outputs), finish(node), laid_out(weights, 1, 0)
    read = source.array.reshape(rows, inputs)
    return quiet(lambda: write(read @ matrix + add))


def batch_matmul(node: OperatorNode) -> Kernel:
    """Prepare BATCH_MATMUL: matrices in the last two dimensions, the others broadcast."""
    node.expect(2)
    left, right, shape = matrices(node, float_input(node), float_input(node, 1))
    output = float_output(node)
    expect_shape(output, shape)
    write = output.array
    return quiet(lambda: np.matmul(left, right, out=write))


def bias(node: OperatorNode, channels: int, number: int = 2) -> Floats:
    """The bias by its number, one float32 for each channel; zeros without one."""
    found = node.optional_input(number, TensorType.FLOAT32)
    if found is None:
        return np.zeros(channels, np.float32)
    if math.prod(found.shape) != channels:
        raise InvalidShape(f"bias has {math.prod(found.shape)} values for {channels} output channels")
    values: Floats = found.array.reshape(channels)
    return values
