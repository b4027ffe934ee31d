"""Reader of models: from the flatbuffer to the values. Fields have the names of schema.fbs."""

from typing import Final, NamedTuple

from aisrv.model.bias_scales import is_vector_of_channels
from aisrv.model.errors import MAX_TENSOR_BYTES, MAX_TENSORS, ModelFileError, SchemaVersionError
from aisrv.model.flatbuffer import File, Table
from aisrv.model.options import read_options
from aisrv.model.schema import FILE_IDENTIFIER, OPERATORS, SCHEMA_VERSION
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

_NO_TENSOR: Final = -1  # stands for an optional input that is left out


def read_model(data: bytes | bytearray | memoryview) -> Model:
    """Read `data`, a model file. Raises ModelFileError, or SchemaVersionError for another schema."""
    root = _root(memoryview(data).cast("B"))
    codes = [_operator_code(table) for table in root.tables("operator_codes", "operator code")]
    buffers = [_buffer(table) for table in root.tables("buffers", "buffer")]
    if not buffers:
        raise ModelFileError("the file has no buffers, not even the empty one")
    subgraphs = [_subgraph(table, codes, buffers) for table in root.tables("subgraphs", "subgraph")]
    if not subgraphs:
        raise ModelFileError("the file has no subgraph")
    main, *others = subgraphs
    metadata = tuple(_metadata(table, buffers) for table in root.tables("metadata", "metadata"))
    return Model(
        version=SCHEMA_VERSION,
        description=root.text("description"),
        tensors=main.tensors,
        operators=main.operators,
        inputs=main.inputs,
        outputs=main.outputs,
        metadata=metadata,
        other_subgraphs=tuple(others),
    )


def _root(data: memoryview) -> Table:
    if len(data) < 8:
        raise ModelFileError(f"not a TensorFlow Lite file: it has {len(data)} bytes, too few for a header")
    if bytes(data[4:8]) != FILE_IDENTIFIER:
        raise ModelFileError(f"not a TensorFlow Lite file: bytes 4 to 7 are {bytes(data[4:8])!r}, not TFL3")
    root = File(data).root
    version = root.integer("version")
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(f"schema version {version}, expected {SCHEMA_VERSION}")
    return root


class _Code(NamedTuple):
    name: str
    is_custom: bool


def _operator_code(table: Table) -> _Code:
    # Old files have the code in a byte, new ones in a word; the other field is 0 or a placeholder below it.
    code = max(table.integer("deprecated_builtin_code"), table.integer("builtin_code"))
    if not 0 <= code < len(OPERATORS):
        raise ModelFileError(f"{table.where} is {code}, which the schema does not know")
    name = OPERATORS[code]
    if name != "CUSTOM":
        return _Code(name, is_custom=False)
    custom = table.text("custom_code")
    if not custom:
        raise ModelFileError(f"{table.where} is CUSTOM without a name")
    return _Code(custom, is_custom=True)


def _buffer(table: Table) -> memoryview:
    start = table.integer("offset")
    if start > 1:  # data behind the flatbuffer, for files above 2 GiB; 0 and 1 stand for none
        size = table.integer("size")
        table.file.check(start, size, f"{table.where}: data")
        return table.file.view[start : start + size]
    return table.view("data")


def _metadata(table: Table, buffers: list[memoryview]) -> Metadata:
    index = table.integer("buffer")
    if index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {index} of {len(buffers)}")
    return Metadata(table.text("name"), _copy(table, buffers[index]))


def _copy(table: Table, data: memoryview) -> bytes:
    table.file.count_copy(data.nbytes, table.where)
    return data.tobytes()


def _subgraph(table: Table, codes: list[_Code], buffers: list[memoryview]) -> Subgraph:
    # Nearly every file has one subgraph, and messages need not name that.
    prefix = "" if table.where == "subgraph 0" else f"{table.where}: "
    _, count = table.vector("tensors")
    if count > MAX_TENSORS:
        raise ModelFileError(f"{table.where} has {count} tensors, more than {MAX_TENSORS}")
    tensors = tuple(
        _tensor(index, tensor, buffers)
        for index, tensor in enumerate(table.tables("tensors", f"{prefix}tensor"))
    )
    inputs = _indices(table, "inputs", f"{prefix}the list of inputs", count)
    outputs = _indices(table, "outputs", f"{prefix}the list of outputs", count)
    operators = tuple(
        _operator(index, operator, codes, count)
        for index, operator in enumerate(table.tables("operators", f"{prefix}operator"))
    )
    return Subgraph(tensors, operators, inputs, outputs)


def _indices(table: Table, name: str, where: str, tensor_count: int, *, lowest: int = 0) -> tuple[int, ...]:
    indices = table.numbers(name)
    for index in indices:
        if not lowest <= index < tensor_count:
            raise ModelFileError(f"{where} names tensor {index} of {tensor_count}")
    return indices


def _tensor(index: int, table: Table, buffers: list[memoryview]) -> Tensor:
    number = table.integer("type")
    try:
        kind = TensorType(number)
    except ValueError:
        raise ModelFileError(f"{table.where} has type {number}, which the schema does not know") from None
    shape = table.numbers("shape")
    nbytes = _size(table.where, shape, kind)

    buffer_index = table.integer("buffer")
    if buffer_index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {buffer_index} of {len(buffers)}")
    data = buffers[buffer_index]
    available = data.nbytes
    # Holds fewer elements than its shape has.
    is_sparse = table.table("sparsity") is not None and available > 0
    if 0 < available < nbytes and not is_sparse:
        raise ModelFileError(f"{table.where} needs {nbytes} bytes, its buffer has {available}")
    return Tensor(
        index=index,
        name=table.text("name"),
        shape=shape,
        type=kind,
        quantization=_quantization(table, shape),
        is_variable=bool(table.integer("is_variable")),
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
    table = tensor.table("quantization")
    if table is None:
        return None
    scales = table.numbers("scale")
    zero_points = table.numbers("zero_point")
    if not scales or not zero_points:
        return None
    if len(zero_points) not in (1, len(scales)):
        raise ModelFileError(f"{tensor.where} has {len(scales)} scales, but {len(zero_points)} zero points")
    dimension = table.integer("quantized_dimension")
    # With a single scale, and for a bias, the dimension means nothing: files exist where it is out of range.
    if is_vector_of_channels(shape, len(scales)):
        return Quantization(scales, zero_points, 0 if len(scales) > 1 else dimension)
    if len(scales) > 1 and (not 0 <= dimension < len(shape) or shape[dimension] != len(scales)):
        raise ModelFileError(
            f"{tensor.where} has {len(scales)} scales for dimension {dimension} of shape {list(shape)}"
        )
    return Quantization(scales, zero_points, dimension)


def _operator(index: int, table: Table, codes: list[_Code], tensor_count: int) -> Operator:
    code_index = table.integer("opcode_index")
    if code_index >= len(codes):
        raise ModelFileError(f"{table.where} names operator code {code_index} of {len(codes)}")
    code = codes[code_index]
    return Operator(
        index=index,
        name=code.name,
        inputs=_indices(table, "inputs", table.where, tensor_count, lowest=_NO_TENSOR),
        outputs=_indices(table, "outputs", table.where, tensor_count),
        options=Options() if code.is_custom else read_options(table, code.name),
        is_custom=code.is_custom,
        custom_options=_copy(table, table.view("custom_options")) if code.is_custom else b"",
    )
