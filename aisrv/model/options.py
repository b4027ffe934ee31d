"""Options of builtin operators: their tables in the schema, and values that no kernel can work with."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aisrv.model.errors import ModelFileError
from aisrv.model.flatbuffer import Table
from aisrv.model.schema import OPTION_TABLES
from aisrv.model.values import Activation, Options, Padding

TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ADD": "AddOptions",
        "ARG_MAX": "ArgMaxOptions",
        "AVERAGE_POOL_2D": "Pool2DOptions",
        "BATCH_MATMUL": "BatchMatMulOptions",
        "CALL_ONCE": "CallOnceOptions",
        "CONCATENATION": "ConcatenationOptions",
        "CONV_2D": "Conv2DOptions",
        "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
        "DEPTH_TO_SPACE": "DepthToSpaceOptions",
        "FULLY_CONNECTED": "FullyConnectedOptions",
        "GATHER": "GatherOptions",
        "IF": "IfOptions",
        "L2_POOL_2D": "Pool2DOptions",
        "LEAKY_RELU": "LeakyReluOptions",
        "MAX_POOL_2D": "Pool2DOptions",
        "MIRROR_PAD": "MirrorPadOptions",
        "MUL": "MulOptions",
        "PACK": "PackOptions",
        "RESIZE_BILINEAR": "ResizeBilinearOptions",
        "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
        "SOFTMAX": "SoftmaxOptions",
        "SPACE_TO_DEPTH": "SpaceToDepthOptions",
        "STRIDED_SLICE": "StridedSliceOptions",
        "SUB": "SubOptions",
        "SVDF": "SVDFOptions",
        "TRANSPOSE_CONV": "TransposeConvOptions",
        "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
        "UNPACK": "UnpackOptions",
        "VAR_HANDLE": "VarHandleOptions",
        "WHILE": "WhileOptions",
    }
)
"""Schema's table of each operator whose options are read."""

_WITH_STRIDES: Final = frozenset(
    {"Conv2DOptions", "DepthwiseConv2DOptions", "Pool2DOptions", "TransposeConvOptions"}
)
_LEAST: Final = MappingProxyType(
    {
        "stride_w": 1,
        "stride_h": 1,
        "dilation_w_factor": 1,
        "dilation_h_factor": 1,
        "filter_width": 1,
        "filter_height": 1,
        "depth_multiplier": 0,
    }
)
"""Extents that a kernel divides or loops by: with less, it would crash."""


def read_options(operator: Table, name: str) -> Options:
    """Read the options of an operator by name; none if its table is of another kind than it should be."""
    table_name = TABLES.get(name)
    if table_name is None:
        return Options()
    where = f"{operator.where} ({name})"
    is_right = operator.integer("builtin_options_type") == OPTION_TABLES[table_name]
    table = operator.table("builtin_options", table_name) if is_right else None
    if table is None:
        if table_name in _WITH_STRIDES:
            raise ModelFileError(f"{where} has no options, so no strides")
        return Options()
    options = Options(table.all_fields())
    for field, least in _LEAST.items():
        if options.integer(field, least) < least:
            raise ModelFileError(f"{where} has {field} {options.fields[field]}, which must be positive")
    _check_choice(options, where, "padding", Padding)
    _check_choice(options, where, "fused_activation_function", Activation)
    return options


def _check_choice(options: Options, where: str, field: str, kind: type[enum.IntEnum]) -> None:
    number = options.integer(field)
    try:
        kind(number)
    except ValueError:
        raise ModelFileError(
            f"{where} has {kind.__name__.lower()} {number}, which the schema does not know"
        ) from None
