"""The operators of a graph by name: the code that prepares a kernel for each.

Eight of them are the backend's; the others belong to the graph and are the same with every backend.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.operator_node import OperatorNode
from aisrv.kernels.graph.operators import (
    backend_operators,
    cast,
    comparisons,
    control,
    extremes,
    gathering,
    integers,
    layout,
    lookup,
    lstm,
    matmul,
    quantize,
    rectifiers,
    reductions,
    resampling,
    resources,
    shapes,
    slicing,
    subtraction,
    svdf,
)
from aisrv.kernels.graph.operators.floats import FLOAT_OPERATORS
from aisrv.model import TensorType

Prepare: TypeAlias = Callable[[OperatorNode], Kernel]
"""Checks an operator and makes its kernel; KernelError for one that cannot be computed."""

OPERATORS: Final[Mapping[str, Prepare]] = {
    "CONV_2D": backend_operators.conv2d,
    "TRANSPOSE_CONV": backend_operators.transpose_conv,
    "DEPTHWISE_CONV_2D": backend_operators.depthwise_conv2d,
    "FULLY_CONNECTED": backend_operators.fully_connected,
    "AVERAGE_POOL_2D": backend_operators.average_pool,
    "MAX_POOL_2D": backend_operators.max_pool,
    "SOFTMAX": backend_operators.softmax,
    "ADD": integers.add,
    "MUL": integers.multiply,
    "RESHAPE": layout.copy,
    "SQUEEZE": layout.copy,
    "EXPAND_DIMS": layout.copy,
    "SHAPE": shapes.shape,
    "BROADCAST_TO": shapes.broadcast_to,
    "PACK": shapes.pack,
    "UNPACK": shapes.unpack,
    "PAD": layout.pad,
    "PADV2": layout.pad,
    "MIRROR_PAD": layout.mirror_pad,
    "SPACE_TO_DEPTH": layout.space_to_depth,
    "DEPTH_TO_SPACE": layout.depth_to_space,
    "TRANSPOSE": layout.transpose,
    "CONCATENATION": layout.concatenation,
    "RESIZE_NEAREST_NEIGHBOR": resampling.resize_nearest_neighbor,
    "RESIZE_BILINEAR": resampling.resize_bilinear,
    "SLICE": slicing.slice_,
    "STRIDED_SLICE": slicing.strided_slice,
    "SPLIT": slicing.split,
    "SPLIT_V": slicing.split_v,
    "GATHER": gathering.gather,
    "CAST": cast.cast,
    "EQUAL": comparisons.equal,
    "NOT_EQUAL": comparisons.not_equal,
    "GREATER": comparisons.greater,
    "GREATER_EQUAL": comparisons.greater_equal,
    "LESS": comparisons.less,
    "LESS_EQUAL": comparisons.less_equal,
    "LOGICAL_AND": comparisons.logical_and,
    "LOGICAL_OR": comparisons.logical_or,
    "LOGICAL_NOT": comparisons.logical_not,
    "MINIMUM": extremes.minimum,
    "MAXIMUM": extremes.maximum,
    "QUANTIZE": quantize.quantize,
    "DEQUANTIZE": quantize.dequantize,
    "LOGISTIC": lookup.logistic,
    "LEAKY_RELU": lookup.leaky_relu,
    "HARD_SWISH": lookup.hard_swish,
    "TANH": lookup.tanh,
    "RELU": rectifiers.relu,
    "RELU6": rectifiers.relu6,
    "PRELU": rectifiers.prelu,
    "ABS": rectifiers.absolute,
    "MEAN": reductions.mean,
    "SUM": reductions.sum_,
    "REDUCE_MAX": reductions.reduce_max,
    "ARG_MAX": reductions.arg_max,
    "SUB": integers.subtract,
    "SQUARED_DIFFERENCE": subtraction.squared_difference,
    "BATCH_MATMUL": matmul.batch_matmul,
    "SVDF": svdf.svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm.lstm,
    "VAR_HANDLE": resources.var_handle,
    "READ_VARIABLE": resources.read_variable,
    "ASSIGN_VARIABLE": resources.assign_variable,
    "IF": control.if_,
    "WHILE": control.while_,
    "CALL_ONCE": resources.call_once,
}
"""All builtin operators that a graph executes, by their names in the schema."""


def prepare(node: OperatorNode) -> Kernel:
    """Check an operator and make its kernel, by its name and its output's type; KernelError."""
    name = node.operator.name
    is_float = bool(node.outputs) and node.outputs[0].tensor.type is TensorType.FLOAT32
    return (FLOAT_OPERATORS if is_float and name in FLOAT_OPERATORS else OPERATORS)[name](node)
