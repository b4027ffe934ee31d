"""From the flatbuffer to the values. Fields are named in schema.fbs, in the order of their numbers."""

from typing import Final, NamedTuple

from aisrv.model.errors import MAX_TENSOR_BYTES, MAX_TENSORS, ModelFileError, SchemaVersionError
from aisrv.model.flatbuffer import I8, I32, I64, ROOT, U8, U32, U64, File, Table
from aisrv.model.operator_names import BUILTIN_OPERATORS
from aisrv.model.options import read_options
from aisrv.model.values import Metadata, Model, Operator, Options, Quantization, Tensor, TensorType

SCHEMA_VERSION: Final = 3
FILE_IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of every file."""

_NO_TENSOR: Final = -1  # stands for an optional input that is left out


def read_model(data: bytes | bytearray | memoryview) -> Model:
    """Read a model file; ModelFileError, which is a SchemaVersionError for another schema."""
    root = _root(bytes(data))
    codes = [_operator_code(table) for table in root.tables(1, "operator code")]
    buffers = [_buffer(table) for table in root.tables(4, "buffer")]
    if not buffers:
        raise ModelFileError("the file has no buffers, not even the empty one")
    subgraphs = [_subgraph(table, codes, buffers) for table in root.tables(2, "subgraph")]
    if not subgraphs:
        raise ModelFileError("the file has no subgraph")
    tensors, operators, inputs, outputs = subgraphs[0]
    metadata = tuple(_metadata(table, buffers) for table in root.tables(6, "metadata"))
    return Model(
        version=SCHEMA_VERSION,
        description=root.text(3, "description"),
        tensors=tensors,
        operators=operators,
        inputs=inputs,
        outputs=outputs,
        metadata=metadata,
    )


def _root(data: bytes) -> Table:
    if len(data) < 8:
        raise ModelFileError(f"not a TensorFlow Lite file: it has {len(data)} bytes, too few for a header")
    if data[4:8] != FILE_IDENTIFIER:
        raise ModelFileError(f"not a TensorFlow Lite file: bytes 4 to 7 are {data[4:8]!r}, not TFL3")
    root = Table(File(data), 0, ROOT)
    version = root.integer(0, U32)
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(f"schema version {version}, expected {SCHEMA_VERSION}")
    return root


class _Code(NamedTuple):
    name: str
    is_custom: bool


def _operator_code(table: Table) -> _Code:
    # Old files have the code in a byte, new ones in a word; the other field is 0 or a placeholder below it.
    code = max(table.integer(0, I8), table.integer(3, I32))
    if not 0 <= code < len(BUILTIN_OPERATORS):
        raise ModelFileError(f"{table.where} is {code}, which the schema does not know")
    name = BUILTIN_OPERATORS[code]
    if name != "CUSTOM":
        return _Code(name, is_custom=False)
    custom = table.text(1, "name")
    if not custom:
        raise ModelFileError(f"{table.where} is CUSTOM without a name")
    return _Code(custom, is_custom=True)


class _Buffer(NamedTuple):
    file: File
    start: int
    size: int


def _buffer(table: Table) -> _Buffer:
    start, size = table.vector(0, 1, "data") or (0, 0)
    outside = table.integer(1, U64)
    if outside > 1:  # data behind the flatbuffer, for files above 2 GiB; 0 and 1 stand for none
        start, size = outside, table.integer(2, U64)
        table.file.check(start, size, f"{table.where}: data")
    return _Buffer(table.file, start, size)


def _metadata(table: Table, buffers: list[_Buffer]) -> Metadata:
    index = table.integer(1, U32)
    if index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {index} of {len(buffers)}")
    buffer = buffers[index]
    table.file.vector_bytes_left -= buffer.size
    if table.file.vector_bytes_left < 0:
        raise ModelFileError(f"{table.where}: the file refers to the same bytes over and over")
    return Metadata(table.text(0, "name"), buffer.file.data[buffer.start : buffer.start + buffer.size])


_Subgraph = tuple[tuple[Tensor, ...], tuple[Operator, ...], tuple[int, ...], tuple[int, ...]]


def _subgraph(table: Table, codes: list[_Code], buffers: list[_Buffer]) -> _Subgraph:
    # Nearly every file has one subgraph, and messages need not name that.
    prefix = "" if table.where == "subgraph 0" else f"{table.where}: "
    _, count = table.vector(0, 4, "tensors") or (0, 0)
    if count > MAX_TENSORS:
        raise ModelFileError(f"{table.where} has {count} tensors, more than {MAX_TENSORS}")
    tensors = tuple(
        _tensor(index, tensor, buffers) for index, tensor in enumerate(table.tables(0, f"{prefix}tensor"))
    )
    inputs = _indices(table, 1, f"{prefix}the list of inputs", count)
    outputs = _indices(table, 2, f"{prefix}the list of outputs", count)
    operators = tuple(
        _operator(index, operator, codes, count)
        for index, operator in enumerate(table.tables(3, f"{prefix}operator"))
    )
    return tensors, operators, inputs, outputs


def _indices(table: Table, slot: int, where: str, tensor_count: int, *, lowest: int = 0) -> tuple[int, ...]:
    indices = table.integers(slot, I32, "tensors")
    for index in indices:
        if not lowest <= index < tensor_count:
            raise ModelFileError(f"{where} names tensor {index} of {tensor_count}")
    return indices


def _tensor(index: int, table: Table, buffers: list[_Buffer]) -> Tensor:
    number = table.integer(1, I8)
    try:
        kind = TensorType(number)
    except ValueError:
        raise ModelFileError(f"{table.where} has type {number}, which the schema does not know") from None
    shape = table.integers(0, I32, "shape")
    nbytes = _size(table.where, shape, kind)

    buffer_index = table.integer(2, U32)
    if buffer_index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {buffer_index} of {len(buffers)}")
    available = buffers[buffer_index].size
    is_sparse = table.table(6, "sparsity") is not None  # holds fewer elements than its shape has
    if 0 < available < nbytes and not is_sparse:
        raise ModelFileError(f"{table.where} needs {nbytes} bytes, its buffer has {available}")
    return Tensor(
        index=index,
        name=table.text(3, "name"),
        shape=shape,
        type=kind,
        quantization=_quantization(table, shape),
        is_constant=available > 0,
        is_variable=bool(table.integer(5, U8)),
        nbytes=nbytes,
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
    table = tensor.table(4, "quantization")
    if table is None:
        return None
    scales = table.reals(2, "scales")
    zero_points = table.integers(3, I64, "zero points")
    if not scales or not zero_points:
        return None
    if len(zero_points) not in (1, len(scales)):
        raise ModelFileError(f"{tensor.where} has {len(scales)} scales, but {len(zero_points)} zero points")
    dimension = table.integer(6, I32)
    # With a single scale the dimension means nothing, and files exist where it is out of range.
    if len(scales) > 1 and (not 0 <= dimension < len(shape) or shape[dimension] != len(scales)):
        raise ModelFileError(
            f"{tensor.where} has {len(scales)} scales for dimension {dimension} of shape {list(shape)}"
        )
    return Quantization(scales, zero_points, dimension)


def _operator(index: int, table: Table, codes: list[_Code], tensor_count: int) -> Operator:
    code_index = table.integer(0, U32)
    if code_index >= len(codes):
        raise ModelFileError(f"{table.where} names operator code {code_index} of {len(codes)}")
    code = codes[code_index]
    return Operator(
        index=index,
        name=code.name,
        inputs=_indices(table, 1, table.where, tensor_count, lowest=_NO_TENSOR),
        outputs=_indices(table, 2, table.where, tensor_count),
        options=Options() if code.is_custom else read_options(table, code.name),
        is_custom=code.is_custom,
        custom_options=table.read(5, 1, "custom options") if code.is_custom else b"",
    )
