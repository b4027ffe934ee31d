"""Write `.tflite` files: a network as a value, and the bytes of its file.

A `Network` has tensors with names, and its operators refer to them by name:

    sum_of = NetworkOperator(BuiltinOperator.ADD, ("a", "a"), ("sum",))
    Network(
        tensors=(Tensor("a", (1, 4), TensorType.INT8, q), Tensor("sum", (1, 4), TensorType.INT8, q)),
        operators=(sum_of,),
        inputs=("a",),
        outputs=("sum",),
    )

and `bytes(network)` is the file. Tensors are the values that the reader yields. The format is TensorFlow
Lite's schema (`tensorflow/lite/schema/schema.fbs`), version 3, file identifier `TFL3`. Data of each buffer
start at a multiple of 16 bytes, which the schema asks of `Buffer.data` (`force_align: 16`). A network gives
the same bytes at every call with one version of the `flatbuffers` package.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite
from tflite import BuiltinOptions

from aisrv.model.dtypes import DTYPES
from aisrv.model.options import TABLES as OPTIONS_READ
from aisrv.model.schema import FILE_IDENTIFIER, OPERATORS, SCHEMA_VERSION
from aisrv.model.values import Quantization, Tensor, TensorType

BUFFER_ALIGNMENT: Final = 16
ABSENT: Final = ""
"""Name of an optional input that an operator is not given; the file holds index -1 for it."""

OPTION_TABLES: Final[Mapping[str, str]] = {
    **OPTIONS_READ,
    "ADD_N": "AddNOptions",
    "CAST": "CastOptions",
    "DEQUANTIZE": "DequantizeOptions",
    "EXPAND_DIMS": "ExpandDimsOptions",
    "HARD_SWISH": "HardSwishOptions",
    "MEAN": "ReducerOptions",
    "PAD": "PadOptions",
    "QUANTIZE": "QuantizeOptions",
    "REDUCE_ALL": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "RESHAPE": "ReshapeOptions",
    "SHAPE": "ShapeOptions",
    "SPLIT": "SplitOptions",
    "SPLIT_V": "SplitVOptions",
    "SQUEEZE": "SqueezeOptions",
    "SUM": "ReducerOptions",
    "TRANSPOSE": "TransposeOptions",
}
"""Schema's table of the options of each operator that can be given some."""

_VERSIONS: Final[Mapping[str, int]] = {
    "CALL_ONCE": 1,
    "CAST": 1,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "EXPAND_DIMS": 1,
    "FULLY_CONNECTED": 4,
    "HARD_SWISH": 1,
    "L2_POOL_2D": 1,
    "RESHAPE": 1,
    "RESIZE_BILINEAR": 3,
    "SHAPE": 1,
    "SQUEEZE": 1,
    "SVDF": 3,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 3,
    "IF": 1,
    "VAR_HANDLE": 1,
    "WHILE": 1,
}
"""Versions of the operators with options for int8, if they are not 2; all others have version 1."""

_WRITABLE: Final = frozenset({*DTYPES, TensorType.INT4})
"""Types of constants: those of DTYPES, and two elements a byte."""

_LAST_INT8_CODE: Final = 127  # BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES


class WriteError(ValueError):
    """A model that cannot be written; the message names the tensor or operator at fault."""


def constant_tensor(name: str, array: npt.NDArray[Any], quantization: Quantization | None = None) -> Tensor:
    """Create a constant of the array's shape and elements. Raises WriteError for a type not in DTYPES."""
    for code, dtype in DTYPES.items():
        if array.dtype == dtype:
            data = array.astype(dtype).tobytes()
            return Tensor(name, array.shape, TensorType(code), quantization, data)
    raise WriteError(f"tensor {name!r}: elements of type {array.dtype} cannot be written")


@dataclass(frozen=True, slots=True)
class NetworkOperator:
    """An operator over named tensors.

    `code` is a BuiltinOperator, or any int32 for a model that asks for what does not exist. `options` maps
    the schema's field names (`stride_w`, `fused_activation_function`, …) to numbers or sequences of int32;
    what it leaves out has the schema's default; None leaves out the whole table. `custom_code` names the
    operator when `code` is CUSTOM.
    """

    code: int
    inputs: tuple[str, ...]
    """Names of its inputs; "" for one that is left out."""
    outputs: tuple[str, ...]
    options: Mapping[str, int | float | Sequence[int]] | None = field(default_factory=dict)
    custom_code: str = ""
    custom_options: bytes = b""
    """Options of a custom operator, in its kernel's form."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network of one subgraph, or of several; operators are in execution order.

    `bytes(network)` is its `.tflite` file and raises WriteError for a model that contradicts itself.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[NetworkOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    version: int = SCHEMA_VERSION
    subgraphs: tuple["Network", ...] = ()
    """Subgraphs 1, 2, ..., which operators call: tensors, operators, inputs and outputs count."""

    def __bytes__(self) -> bytes:
        every = (self, *self.subgraphs)
        indices = [each.indices() for each in every]
        constants = sum(len(tensor.data or b"") for each in every for tensor in each.tensors)
        builder = flatbuffers.Builder(constants + sum(map(len, self.metadata.values())) + 4096)
        _write(self, builder, indices)
        return bytes(builder.Output())

    def indices(self) -> dict[str, int]:
        """Index of each tensor by its name. Raises WriteError."""
        indices = {tensor.name: index for index, tensor in enumerate(self.tensors)}
        if len(indices) != len(self.tensors) or ABSENT in indices:
            raise WriteError("tensors need names that are different and not empty")
        for tensor in self.tensors:
            _check(tensor)
        return indices


def _check(tensor: Tensor) -> None:
    where = f"tensor {tensor.name!r}"
    quantization = tensor.quantization
    if quantization is not None:
        count = len(quantization.scales)
        if count != len(quantization.zero_points):
            raise WriteError(f"{where}: {count} scales but {len(quantization.zero_points)} zero points")
        if count > 1 and tensor.shape[quantization.dimension : quantization.dimension + 1] != (count,):
            raise WriteError(
                f"{where}: {count} scales for dimension {quantization.dimension} of a tensor of shape "
                f"{tensor.shape}"
            )
    if tensor.data is None:
        return
    if tensor.is_variable:
        raise WriteError(f"{where}: a variable tensor has no data")
    if tensor.type not in _WRITABLE:
        raise WriteError(f"{where}: constants of tensor type {tensor.type} cannot be written")
    if len(tensor.data) != tensor.nbytes:
        raise WriteError(
            f"{where}: {len(tensor.data)} bytes of data, its shape and type need {tensor.nbytes}"
        )


def _write(model: Network, builder: flatbuffers.Builder, indices: Sequence[Mapping[str, int]]) -> None:
    # A flatbuffer is written from its end: whatever a table refers to comes before the table.
    buffers = [_table(builder, "Buffer")]  # buffer 0 stays empty and serves every tensor without data
    every = (model, *model.subgraphs)
    tensors = [[_tensor_of(builder, tensor, buffers) for tensor in each.tensors] for each in every]
    kinds = list(
        dict.fromkeys((operator.code, operator.custom_code) for each in every for operator in each.operators)
    )
    codes = [_operator_code(builder, code, custom_code) for code, custom_code in kinds]
    subgraphs = [
        _subgraph(builder, each, kinds, made, places, name="main" if each is model else f"subgraph {number}")
        for number, (each, made, places) in enumerate(zip(every, tensors, indices, strict=True))
    ]

    metadata = []
    for name, data in model.metadata.items():
        metadata.append(_table(builder, "Metadata", name=builder.CreateString(name), buffer=len(buffers)))
        buffers.append(_table(builder, "Buffer", data=_aligned_bytes(builder, data)))
    extra = {"metadata": _tables(builder, metadata)} if metadata else {}
    root = _table(
        builder,
        "Model",
        version=model.version,
        operator_codes=_tables(builder, codes),
        subgraphs=_tables(builder, subgraphs),
        description=builder.CreateString(model.description),
        buffers=_tables(builder, buffers),
        **extra,
    )
    builder.Finish(root, file_identifier=FILE_IDENTIFIER)


def _subgraph(
    builder: flatbuffers.Builder,
    network: Network,
    kinds: Sequence[tuple[int, str]],
    tensors: Sequence[int],
    indices: Mapping[str, int],
    name: str,
) -> int:
    operators = [
        _operator(builder, operator, kinds.index((operator.code, operator.custom_code)), indices)
        for operator in network.operators
    ]
    return _table(
        builder,
        "SubGraph",
        tensors=_tables(builder, tensors),
        inputs=_tensor_indices(builder, network.inputs, indices, "the model's inputs"),
        outputs=_tensor_indices(builder, network.outputs, indices, "the model's outputs"),
        operators=_tables(builder, operators),
        name=builder.CreateString(name),
    )


def _tensor_of(builder: flatbuffers.Builder, tensor: Tensor, buffers: list[int]) -> int:
    buffer = 0
    if tensor.data is not None:
        buffer = len(buffers)
        buffers.append(_table(builder, "Buffer", data=_aligned_bytes(builder, tensor.data)))
    return _tensor(builder, tensor, buffer)


def _tensor(builder: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    fields: dict[str, int] = {
        "shape": _numbers(builder, tensor.shape, "<i4"),
        "type": tensor.type,
        "buffer": buffer,
        "name": builder.CreateString(tensor.name),
        "is_variable": tensor.is_variable,
    }
    if tensor.quantization is not None:
        fields["quantization"] = _table(
            builder,
            "QuantizationParameters",
            scale=_numbers(builder, tensor.quantization.scales, "<f4"),
            zero_point=_numbers(builder, tensor.quantization.zero_points, "<i8"),
            quantized_dimension=tensor.quantization.dimension,
        )
    return _table(builder, "Tensor", **fields)


def _name(code: int) -> str:
    """Return the schema's name of an operator; empty for an unknown code."""
    return OPERATORS[code] if 0 <= code < len(OPERATORS) else ""


def _operator_code(builder: flatbuffers.Builder, code: int, custom_code: str) -> int:
    name = _name(code)
    fields = {
        # Readers from before schema 3a know only this byte; they take 127 as "a later operator".
        "deprecated_builtin_code": min(code, _LAST_INT8_CODE),
        "builtin_code": code,
        "version": _VERSIONS.get(name, 2 if name in OPTION_TABLES else 1),
    }
    if custom_code:
        fields["custom_code"] = builder.CreateString(custom_code)
    return _table(builder, "OperatorCode", **fields)


def _operator(
    builder: flatbuffers.Builder, operator: NetworkOperator, code_index: int, indices: Mapping[str, int]
) -> int:
    where = f"operator {operator.code} that makes {', '.join(operator.outputs)}"
    fields = {
        "opcode_index": code_index,
        "inputs": _tensor_indices(builder, operator.inputs, indices, where),
        "outputs": _tensor_indices(builder, operator.outputs, indices, where),
    }
    table = OPTION_TABLES.get(_name(operator.code))
    if table is not None and operator.options is not None:
        values = {
            name: _numbers(builder, value, "<i4") if isinstance(value, Sequence) else value
            for name, value in operator.options.items()
        }
        fields["builtin_options_type"] = getattr(BuiltinOptions, table)
        fields["builtin_options"] = _table(builder, table, **values)
    elif operator.options:
        raise WriteError(f"{where}: no table of options is known for this operator")
    if operator.custom_options:
        fields["custom_options"] = _aligned_bytes(builder, operator.custom_options)
    return _table(builder, "Operator", **fields)


def _tensor_indices(
    builder: flatbuffers.Builder, names: Iterable[str], indices: Mapping[str, int], where: str
) -> int:
    try:
        return _numbers(builder, [-1 if name == ABSENT else indices[name] for name in names], "<i4")
    except KeyError as unknown:
        raise WriteError(f"{where}: unknown tensor {unknown}") from None


def _table(builder: flatbuffers.Builder, table: str, /, **fields: int | float) -> int:
    """Write a table of the schema by the schema's own field names."""
    adders: list[tuple[Callable[..., None], int | float]] = []
    for name, value in fields.items():
        adder = getattr(tflite, f"{table}Add{''.join(part.capitalize() for part in name.split('_'))}", None)
        if adder is None:
            raise WriteError(f"the schema's table {table} has no field {name!r}")
        adders.append((adder, value))
    getattr(tflite, f"{table}Start")(builder)
    for adder, value in adders:
        adder(builder, value)
    return int(getattr(tflite, f"{table}End")(builder))


def _tables(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _numbers(builder: flatbuffers.Builder, values: Sequence[float], dtype: str) -> int:
    return int(builder.CreateNumpyVector(np.array(values, dtype)))


def _aligned_bytes(builder: flatbuffers.Builder, data: bytes | memoryview) -> int:
    builder.StartVector(1, len(data), BUFFER_ALIGNMENT)
    # The builder's public way is one call for each byte.
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return int(builder.EndVector())
