"""Operators of float32 by their names, computed by NumPy.

Sums are TensorFlow Lite Micro's in another order, so that their last bits differ.
"""

from collections.abc import Callable, Mapping
from typing import Final

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode
from aisrv.kernels.graph.operators.floats import (
    convolutions,
    elements,
    pools,
    products,
    reductions,
    resampling,
)

FLOAT_OPERATORS: Final[Mapping[str, Callable[[OperatorNode], Kernel]]] = {
    "CONV_2D": convolutions.conv2d,
    "DEPTHWISE_CONV_2D": convolutions.depthwise_conv2d,
    "TRANSPOSE_CONV": convolutions.transpose_conv,
    "FULLY_CONNECTED": products.fully_connected,
    "BATCH_MATMUL": products.batch_matmul,
    "AVERAGE_POOL_2D": pools.average_pool,
    "MAX_POOL_2D": pools.max_pool,
    "SOFTMAX": reductions.softmax,
    "MEAN": reductions.mean,
    "SUM": reductions.sum_,
    "RESIZE_BILINEAR": resampling.resize_bilinear,
    "ADD": elements.add,
    "SUB": elements.subtract,
    "MUL": elements.multiply,
    "SQUARED_DIFFERENCE": elements.squared_difference,
    "PRELU": elements.prelu,
    "LOGISTIC": elements.logistic,
    "TANH": elements.tanh,
    "RELU": elements.relu,
    "RELU6": elements.relu6,
    "LEAKY_RELU": elements.leaky_relu,
    "HARD_SWISH": elements.hard_swish,
    "ABS": elements.absolute,
}
"""Operators whose output is of float32, and which compute otherwise than with integers."""
