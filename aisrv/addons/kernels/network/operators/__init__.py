"""The operators of a network by name, each with its types and the code that prepares a kernel for it.

The manual's table is made of this one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.operators import (
    backend_operators,
    comparisons,
    control,
    elementwise,
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
    svdf,
)
from aisrv.addons.kernels.network.operators.floats import elements, offers, products
from aisrv.addons.kernels.network.operators.floats import reductions as float_reductions
from aisrv.addons.kernels.network.operators.floats import resampling as float_resampling
from aisrv.model import TensorType

Prepare: TypeAlias = Callable[[OperatorNode], Kernel]
"""Checks an operator and makes its kernel; KernelError for one that cannot be computed."""


@dataclass(frozen=True, slots=True)
class Computation:
    """The code and the types of an operator."""

    by: str
    """The part of the engine that computes it, and its kind, for the manual."""
    types: str
    """The types of its activations, for the manual; float32 comes on top where there is `floats`."""
    prepare: Prepare
    floats: Prepare | None = None
    """For an output of float32; NumPy's sums have another order than TensorFlow Lite Micro's."""
    note: str = ""
    """A remark of the manual."""


def _layout(prepare: Prepare) -> Computation:
    return Computation("the network, layout", "any type", prepare)


_BACKEND: Final = "the backend"
_ARITHMETIC: Final = "the network, arithmetic"
_FUNCTIONS: Final = "the network, functions"
_COMPARISONS: Final = "the network, comparisons"
_RECURRENT: Final = "the backend `native`, else the network"
_BOTH: Final = "int8, int16"
_NUMBERS: Final = "int8, int32, int64, float32"

OPERATORS: Final[Mapping[str, Computation]] = {
    "CONV_2D": Computation(
        _BACKEND, _BOTH, backend_operators.conv2d, offers.conv2d, "of groups of channels, too"
    ),
    "DEPTHWISE_CONV_2D": Computation(
        _BACKEND, _BOTH, backend_operators.depthwise_conv2d, offers.depthwise_conv2d
    ),
    "TRANSPOSE_CONV": Computation(
        _BACKEND, _BOTH, backend_operators.transpose_conv, offers.transpose_conv, "by its CONV_2D"
    ),
    "FULLY_CONNECTED": Computation(
        _BACKEND, _BOTH, backend_operators.fully_connected, offers.fully_connected
    ),
    "AVERAGE_POOL_2D": Computation(_BACKEND, _BOTH, backend_operators.average_pool, offers.average_pool),
    "MAX_POOL_2D": Computation(_BACKEND, _BOTH, backend_operators.max_pool, offers.max_pool),
    "SOFTMAX": Computation(_BACKEND, _BOTH, backend_operators.softmax, offers.softmax),
    "ADD": Computation(_BACKEND, _BOTH, elementwise.add, offers.add, "the network: of int32"),
    "MUL": Computation(_BACKEND, _BOTH, elementwise.multiply, offers.multiply, "the network: of int32"),
    "SUB": Computation(_ARITHMETIC, _BOTH, elementwise.subtract, offers.subtract, "also of int32"),
    "BATCH_MATMUL": Computation(_ARITHMETIC, _BOTH, matmul.batch_matmul, products.batch_matmul),
    "MEAN": Computation(_ARITHMETIC, _BOTH, reductions.mean, offers.mean),
    "SUM": Computation(_ARITHMETIC, _BOTH, reductions.sum_, float_reductions.sum_),
    "SQUARED_DIFFERENCE": Computation(
        _ARITHMETIC, "int8", elementwise.squared_difference, elements.squared_difference
    ),
    "RESIZE_BILINEAR": Computation(
        _ARITHMETIC, "int8", resampling.resize_bilinear, float_resampling.resize_bilinear
    ),
    "LEAKY_RELU": Computation(_FUNCTIONS, _BOTH, lookup.leaky_relu, elements.leaky_relu),
    "LOGISTIC": Computation(_FUNCTIONS, _BOTH, lookup.logistic, offers.logistic),
    "TANH": Computation(_FUNCTIONS, _BOTH, lookup.tanh, offers.tanh),
    "RELU": Computation(_FUNCTIONS, "int8", rectifiers.relu, elements.relu),
    "RELU6": Computation(_FUNCTIONS, "int8", rectifiers.relu6, elements.relu6),
    "PRELU": Computation(_FUNCTIONS, "int8", rectifiers.prelu, elements.prelu),
    "HARD_SWISH": Computation(_FUNCTIONS, "int8", lookup.hard_swish, elements.hard_swish),
    "ABS": Computation(_FUNCTIONS, "int8", rectifiers.absolute, elements.absolute),
    "REDUCE_MAX": Computation("the network, largest", "int8, float32", reductions.reduce_max),
    "ARG_MAX": Computation("the network, largest", "int8, float32", reductions.arg_max, note="to int32"),
    "MINIMUM": Computation(_COMPARISONS, _NUMBERS, comparisons.minimum, note="also of int16"),
    "MAXIMUM": Computation(_COMPARISONS, _NUMBERS, comparisons.maximum, note="also of int16"),
    "EQUAL": Computation(_COMPARISONS, _NUMBERS, comparisons.equal, note="also of bools"),
    "NOT_EQUAL": Computation(_COMPARISONS, _NUMBERS, comparisons.not_equal, note="also of bools"),
    "GREATER": Computation(_COMPARISONS, _NUMBERS, comparisons.greater),
    "GREATER_EQUAL": Computation(_COMPARISONS, _NUMBERS, comparisons.greater_equal),
    "LESS": Computation(_COMPARISONS, _NUMBERS, comparisons.less),
    "LESS_EQUAL": Computation(_COMPARISONS, _NUMBERS, comparisons.less_equal),
    "LOGICAL_AND": Computation("the network, logic", "bool", comparisons.logical_and),
    "LOGICAL_OR": Computation("the network, logic", "bool", comparisons.logical_or),
    "LOGICAL_NOT": Computation("the network, logic", "bool", comparisons.logical_not),
    "RESHAPE": _layout(layout.copy),
    "SQUEEZE": _layout(layout.copy),
    "EXPAND_DIMS": _layout(layout.copy),
    "PAD": _layout(layout.pad),
    "PADV2": _layout(layout.pad),
    "MIRROR_PAD": _layout(layout.mirror_pad),
    "TRANSPOSE": _layout(layout.transpose),
    "CONCATENATION": _layout(layout.concatenation),
    "PACK": _layout(shapes.pack),
    "UNPACK": _layout(shapes.unpack),
    "SPLIT": _layout(slicing.split),
    "SPLIT_V": _layout(slicing.split_v),
    "SLICE": _layout(slicing.slice_),
    "STRIDED_SLICE": _layout(slicing.strided_slice),
    "GATHER": _layout(slicing.gather),
    "BROADCAST_TO": _layout(shapes.broadcast_to),
    "SPACE_TO_DEPTH": _layout(layout.space_to_depth),
    "DEPTH_TO_SPACE": _layout(layout.depth_to_space),
    "RESIZE_NEAREST_NEIGHBOR": _layout(resampling.resize_nearest_neighbor),
    "SHAPE": Computation("the network, types", "any type", shapes.shape, note="to int32"),
    "QUANTIZE": Computation(
        "the network, types",
        "float32, int8, uint8, int16, int32",
        quantize.quantize,
        note="to int8, uint8, int16; from the shorter integers to int32, too",
    ),
    "DEQUANTIZE": Computation("the network, types", "int8, uint8, int16", quantize.dequantize),
    "CAST": Computation("the network, types", "bool, int8, int16, int32, float32", quantize.cast),
    "SVDF": Computation(_RECURRENT, "int8", svdf.svdf, note="with a state of int8 or int16"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Computation(
        _RECURRENT,
        "int8",
        lstm.lstm,
        note="also of int16, by the network; with a cell state of int16, without peepholes, projection and "
        "layer normalization",
    ),
    "IF": Computation("the network, control", "any type", control.if_),
    "WHILE": Computation("the network, control", "any type", control.while_),
    "VAR_HANDLE": Computation("the network, state", "any type", resources.var_handle),
    "READ_VARIABLE": Computation("the network, state", "any type", resources.read_variable),
    "ASSIGN_VARIABLE": Computation("the network, state", "any type", resources.assign_variable),
    "CALL_ONCE": Computation("the network, state", "any type", resources.call_once),
}
"""All builtin operators that a network executes, by their names in the schema."""


def prepare(node: OperatorNode) -> Kernel:
    """Check an operator and make its kernel, by its name and its output's type; KernelError."""
    computation = OPERATORS[node.operator.name]
    is_float = bool(node.outputs) and node.outputs[0].tensor.type is TensorType.FLOAT32
    return ((is_float and computation.floats) or computation.prepare)(node)
