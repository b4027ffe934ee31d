"""The operators of a graph by name: the code that prepares a kernel for each.

Eight of them are the backend's; the others belong to the graph and are the same with every backend.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode
from aisrv.kernels.graph.operators import (
    backend_operators,
    layout,
    lookup,
    mean,
    resources,
    slicing,
    subtraction,
)
from aisrv.kernels.graph.operators import quantize as quantize

Prepare: TypeAlias = Callable[[OperatorNode], Kernel]
"""Checks an operator and makes its kernel; KernelError for one that cannot be computed."""

OPERATORS: Final[Mapping[str, Prepare]] = {
    "CONV_2D": backend_operators.conv2d,
    "DEPTHWISE_CONV_2D": backend_operators.depthwise_conv2d,
    "FULLY_CONNECTED": backend_operators.fully_connected,
    "AVERAGE_POOL_2D": backend_operators.average_pool,
    "MAX_POOL_2D": backend_operators.max_pool,
    "SOFTMAX": backend_operators.softmax,
    "ADD": backend_operators.add,
    "MUL": backend_operators.mul,
    "RESHAPE": layout.copy,
    "SQUEEZE": layout.copy,
    "EXPAND_DIMS": layout.copy,
    "PAD": layout.pad,
    "TRANSPOSE": layout.transpose,
    "CONCATENATION": layout.concatenation,
    "RESIZE_NEAREST_NEIGHBOR": layout.resize_nearest_neighbor,
    "STRIDED_SLICE": slicing.strided_slice,
    "SPLIT": slicing.split,
    "SPLIT_V": slicing.split_v,
    "QUANTIZE": quantize.quantize,
    "DEQUANTIZE": quantize.dequantize,
    "LOGISTIC": lookup.logistic,
    "LEAKY_RELU": lookup.leaky_relu,
    "HARD_SWISH": lookup.hard_swish,
    "MEAN": mean.mean,
    "SUB": subtraction.subtract,
    "VAR_HANDLE": resources.var_handle,
    "READ_VARIABLE": resources.read_variable,
    "ASSIGN_VARIABLE": resources.assign_variable,
    "CALL_ONCE": resources.call_once,
}
"""All builtin operators that a graph executes, by their names in the schema."""
