"""From the flatbuffer to the values. Fields have the names that the `tflite` package makes of schema.fbs."""

from typing import Final, NamedTuple

from tflite import BUILTIN_OPCODE2NAME

from aisrv.model.errors import MAX_TENSOR_BYTES, MAX_TENSORS, ModelFileError, SchemaVersionError
from aisrv.model.flatbuffer import File, Table
from aisrv.model.options import read_options
from aisrv.model.values import (
    Metadata,
    Model,
    Operator,
    Options,
    Quantization,
    Subgraph,
    Tensor,
    TensorType,
)

SCHEMA_VERSION: Final = 3
FILE_IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of every file."""

_BUILTIN_CODE: Final = 3
"""Number of OperatorCode.builtin_code in the schema."""
_NO_TENSOR: Final = -1  # stands for an optional input that is left out


def read_model(data: bytes | bytearray | memoryview) -> Model:
    """Read a model file; ModelFileError, which is a SchemaVersionError for another schema."""
    root = _root(bytes(data))
    codes = [_operator_code(table) for table in root.tables("OperatorCodes", "operator code")]
    buffers = [_buffer(table) for table in root.tables("Buffers", "buffer")]
    if not buffers:
        raise ModelFileError("the file has no buffers, not even the empty one")
    subgraphs = [_subgraph(table, codes, buffers) for table in root.tables("Subgraphs", "subgraph")]
    if not subgraphs:
        raise ModelFileError("the file has no subgraph")
    main, *others = subgraphs
    metadata = tuple(_metadata(table, buffers) for table in root.tables("Metadata", "metadata"))
    return Model(
        version=SCHEMA_VERSION,
        description=root.text("Description"),
        tensors=main.tensors,
        operators=main.operators,
        inputs=main.inputs,
        outputs=main.outputs,
        metadata=metadata,
        other_subgraphs=tuple(others),
    )


def _root(data: bytes) -> Table:
    if len(data) < 8:
        raise ModelFileError(f"not a TensorFlow Lite file: it has {len(data)} bytes, too few for a header")
    if data[4:8] != FILE_IDENTIFIER:
        raise ModelFileError(f"not a TensorFlow Lite file: bytes 4 to 7 are {data[4:8]!r}, not TFL3")
    root = File(data).root
    version = root.number("Version")
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(f"schema version {version}, expected {SCHEMA_VERSION}")
    return root


class _Code(NamedTuple):
    name: str
    is_custom: bool


def _operator_code(table: Table) -> _Code:
    # Old files have the code in a byte, new ones in a word; the other field is 0 or a placeholder below it.
    # The package's own BuiltinCode ignores a small word, which interpreters do not.
    code = max(table.number("DeprecatedBuiltinCode"), table.integer_at(_BUILTIN_CODE))
    name = BUILTIN_OPCODE2NAME.get(code)
    if name is None:
        raise ModelFileError(f"{table.where} is {code}, which the schema does not know")
    if name != "CUSTOM":
        return _Code(name, is_custom=False)
    custom = table.text("CustomCode")
    if not custom:
        raise ModelFileError(f"{table.where} is CUSTOM without a name")
    return _Code(custom, is_custom=True)


def _buffer(table: Table) -> memoryview:
    start = table.number("Offset")
    if start > 1:  # data behind the flatbuffer, for files above 2 GiB; 0 and 1 stand for none
        size = table.number("Size")
        table.file.check(start, size, f"{table.where}: data")
        return table.file.view[start : start + size]
    return table.view("Data")


def _metadata(table: Table, buffers: list[memoryview]) -> Metadata:
    index = table.number("Buffer")
    if index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {index} of {len(buffers)}")
    buffer = buffers[index]
    table.file.count_copy(buffer.nbytes, table.where)
    return Metadata(table.text("Name"), buffer.tobytes())


def _subgraph(table: Table, codes: list[_Code], buffers: list[memoryview]) -> Subgraph:
    # Nearly every file has one subgraph, and messages need not name that.
    prefix = "" if table.where == "subgraph 0" else f"{table.where}: "
    _, count = table.vector("Tensors")
    if count > MAX_TENSORS:
        raise ModelFileError(f"{table.where} has {count} tensors, more than {MAX_TENSORS}")
    tensors = tuple(
        _tensor(index, tensor, buffers)
        for index, tensor in enumerate(table.tables("Tensors", f"{prefix}tensor"))
    )
    inputs = _indices(table, "Inputs", f"{prefix}the list of inputs", count)
    outputs = _indices(table, "Outputs", f"{prefix}the list of outputs", count)
    operators = tuple(
        _operator(index, operator, codes, count)
        for index, operator in enumerate(table.tables("Operators", f"{prefix}operator"))
    )
    return Subgraph(tensors, operators, inputs, outputs)


def _indices(table: Table, name: str, where: str, tensor_count: int, *, lowest: int = 0) -> tuple[int, ...]:
    indices = table.numbers(name)
    for index in indices:
        if not lowest <= index < tensor_count:
            raise ModelFileError(f"{where} names tensor {index} of {tensor_count}")
    return indices


def _tensor(index: int, table: Table, buffers: list[memoryview]) -> Tensor:
    number = table.number("Type")
    try:
        kind = TensorType(number)
    except ValueError:
        raise ModelFileError(f"{table.where} has type {number}, which the schema does not know") from None
    shape = table.numbers("Shape")
    nbytes = _size(table.where, shape, kind)

    buffer_index = table.number("Buffer")
    if buffer_index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {buffer_index} of {len(buffers)}")
    data = buffers[buffer_index]
    available = data.nbytes
    is_sparse = (
        table.table("Sparsity") is not None and available > 0
    )  # holds fewer elements than its shape has
    if 0 < available < nbytes and not is_sparse:
        raise ModelFileError(f"{table.where} needs {nbytes} bytes, its buffer has {available}")
    return Tensor(
        index=index,
        name=table.text("Name"),
        shape=shape,
        type=kind,
        quantization=_quantization(table, shape),
        is_variable=bool(table.number("IsVariable")),
        data=data[:nbytes] if available and not is_sparse else None,
    )


def _size(where: str, shape: tuple[int, ...], kind: TensorType) -> int:
    elements = 1
    for extent in shape:
        if extent < 0:
            raise ModelFileError(f"{where} has an extent of {extent}: shapes must be known")
        elements *= extent
        if elements * kind.bits > 8 * MAX_TENSOR_BYTES or elements > MAX_TENSOR_BYTES:
            raise ModelFileError(f"{where} is larger than {MAX_TENSOR_BYTES} bytes")
    return (elements * kind.bits + 7) // 8


def _quantization(tensor: Table, shape: tuple[int, ...]) -> Quantization | None:
    table = tensor.table("Quantization")
    if table is None:
        return None
    scales = table.numbers("Scale")
    zero_points = table.numbers("ZeroPoint")
    if not scales or not zero_points:
        return None
    if len(zero_points) not in (1, len(scales)):
        raise ModelFileError(f"{tensor.where} has {len(scales)} scales, but {len(zero_points)} zero points")
    dimension = table.number("QuantizedDimension")
    # With a single scale the dimension means nothing, and files exist where it is out of range.
    if len(scales) > 1 and (not 0 <= dimension < len(shape) or shape[dimension] != len(scales)):
        raise ModelFileError(
            f"{tensor.where} has {len(scales)} scales for dimension {dimension} of shape {list(shape)}"
        )
    return Quantization(scales, zero_points, dimension)


def _operator(index: int, table: Table, codes: list[_Code], tensor_count: int) -> Operator:
    code_index = table.number("OpcodeIndex")
    if code_index >= len(codes):
        raise ModelFileError(f"{table.where} names operator code {code_index} of {len(codes)}")
    code = codes[code_index]
    return Operator(
        index=index,
        name=code.name,
        inputs=_indices(table, "Inputs", table.where, tensor_count, lowest=_NO_TENSOR),
        outputs=_indices(table, "Outputs", table.where, tensor_count),
        options=Options() if code.is_custom else read_options(table, code.name),
        is_custom=code.is_custom,
        custom_options=bytes(table.numbers("CustomOptions")) if code.is_custom else b"",
    )
