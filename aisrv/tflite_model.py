"""A TensorFlow Lite model file as a value: its tensors and operators, checked before an interpreter gets it.

`Model.from_bytes` reads the flatbuffer of the TensorFlow Lite schema version 3 (`schema.fbs`, file identifier
TFL3) and touches no weights, so that a file of any size is read in a few milliseconds. Whatever the bytes
are, the answer is a Model or a ModelFileError: offsets, lengths and indices are checked, and MAX_TABLES,
MAX_TENSORS and the size of the file bound the work. What the check cannot know is whether an interpreter
has kernels for the operators.
"""

import enum
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeVar

SCHEMA_VERSION: Final = 3
FILE_IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of every file."""

MAX_TABLES: Final = 65_536
"""Flatbuffer tables that are read from one file: bounds the time that a file with shared tables can take."""
MAX_TENSORS: Final = 4_096
"""Tensors of one subgraph; their bookkeeping alone would take 48 KiB of a device's 512."""
MAX_TENSOR_BYTES: Final = 2**31 - 1
"""Largest tensor: a 32-bit device addresses no more."""

_NO_TENSOR: Final = -1  # stands for an optional input that is left out


class ModelFileError(ValueError):
    """Bytes that are no model; the message says what is wrong and where."""


class SchemaVersionError(ModelFileError):
    """A TensorFlow Lite file of another schema version than 3."""


class TensorType(enum.IntEnum):
    """Element type of a tensor, numbered as in the schema."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    VARIANT = 14
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18

    @property
    def bits(self) -> int:
        """Bits of one element; 0 where the type alone does not tell (STRING, VARIANT)."""
        return _BITS[self]


# By the number of the type; a resource is a 32-bit handle.
_BITS: Final = (32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 32, 0, 32, 16, 4, 16)


class Padding(enum.IntEnum):
    """How a window treats the border of its input."""

    SAME = 0
    VALID = 1


class Activation(enum.IntEnum):
    """Activation fused into an operator."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = scale * (integer - zero point): one pair for the tensor, or one for each index of `dimension`.

    `zero_points` has as many entries as `scales`, or one that holds for all.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int = 0

    @property
    def is_per_channel(self) -> bool:
        """Whether there is more than one scale."""
        return len(self.scales) > 1

    @property
    def scale(self) -> float:
        """The scale of the whole tensor; ValueError where it is quantised per channel."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """The zero point of the whole tensor; ValueError where there is one for each channel."""
        (zero_point,) = self.zero_points
        return zero_point


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the main subgraph. An empty shape is a scalar; `nbytes` is the size of its data."""

    index: int
    name: str
    shape: tuple[int, ...]
    type: TensorType
    quantization: Quantization | None
    is_constant: bool
    """Whether the file holds its data."""
    is_variable: bool
    """Whether it keeps its value from one invocation to the next."""
    nbytes: int


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an operator that shape its work; what its schema table lacks has the default here.

    The kernel of a convolution is the shape of its weights; `kernel_w` and `kernel_h` are a pool's window.
    """

    padding: Padding = Padding.SAME
    stride_w: int = 1
    stride_h: int = 1
    dilation_w: int = 1
    dilation_h: int = 1
    kernel_w: int = 1
    kernel_h: int = 1
    depth_multiplier: int = 0
    activation: Activation = Activation.NONE
    beta: float = 1.0


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the main subgraph; tensors are indices, an input that is left out is -1.

    `name` is the builtin's ("CONV_2D"), or a custom operator's own.
    """

    index: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options = Options()
    is_custom: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """A named blob of the file."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Model:
    """A model: the tensors and operators of its main subgraph (the first), operators in execution order."""

    version: int
    description: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: tuple[Metadata, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read a model file; raise ModelFileError (SchemaVersionError for another schema) otherwise."""
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
        return cls(SCHEMA_VERSION, root.text(3, "description"), tensors, operators, inputs, outputs, metadata)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The model's inputs in the order in which the device numbers them."""
        return tuple(self.tensors[index] for index in self.inputs)

    @property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """The model's outputs in the order in which the device numbers them."""
        return tuple(self.tensors[index] for index in self.outputs)

    @property
    def input_bytes(self) -> int:
        """Total size of the inputs in bytes."""
        return sum(tensor.nbytes for tensor in self.input_tensors)

    @property
    def output_bytes(self) -> int:
        """Total size of the outputs in bytes."""
        return sum(tensor.nbytes for tensor in self.output_tensors)


# The flatbuffer: https://flatbuffers.dev/internals. All offsets count from the field that holds them.

_I8: Final = struct.Struct("<b")
_U8: Final = struct.Struct("<B")
_U16: Final = struct.Struct("<H")
_I32: Final = struct.Struct("<i")
_U32: Final = struct.Struct("<I")
_I64: Final = struct.Struct("<q")
_U64: Final = struct.Struct("<Q")
_F32: Final = struct.Struct("<f")


class _File:
    """The bytes of a file, and how much more of them may be read."""

    __slots__ = ("data", "tables_left", "vector_bytes_left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tables_left = MAX_TABLES
        # Vectors may be shared, but a file that makes us read it over and over is no model.
        self.vector_bytes_left = 4 * len(data)

    def integer(self, kind: struct.Struct, position: int, where: str) -> int:
        self.check(position, kind.size, where)
        return int(kind.unpack_from(self.data, position)[0])

    def check(self, position: int, size: int, where: str) -> None:
        if position < 0 or position + size > len(self.data):
            raise ModelFileError(
                f"{where} takes {size} bytes at {position}: outside the file, which has {len(self.data)}"
            )


class _Table:
    """A table of the file: fields by their number in the schema. An absent field has its default."""

    __slots__ = ("file", "length", "position", "vtable", "vtable_length", "where")

    def __init__(self, file: _File, reference: int, where: str) -> None:
        """Follow the offset at byte `reference`."""
        file.tables_left -= 1
        if file.tables_left < 0:
            raise ModelFileError(f"{where}: the file has more than {MAX_TABLES} tables")
        self.file = file
        self.where = where
        self.position = reference + file.integer(_U32, reference, f"the offset of {where}")
        self.vtable = self.position - file.integer(_I32, self.position, where)
        self.vtable_length = file.integer(_U16, self.vtable, f"the field list of {where}")
        self.length = file.integer(_U16, self.vtable + 2, f"the field list of {where}")
        file.check(self.vtable, self.vtable_length, f"the field list of {where}")
        file.check(self.position, self.length, where)

    def _at(self, slot: int) -> int | None:
        """Position of a field, None where it is absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_length:
            return None
        offset = int(_U16.unpack_from(self.file.data, self.vtable + entry)[0])
        if offset >= self.length:
            raise ModelFileError(f"{self.where}: field {slot} lies {offset} bytes into {self.length}")
        return self.position + offset if offset else None

    def integer(self, slot: int, kind: struct.Struct, default: int = 0) -> int:
        position = self._at(slot)
        return (
            default if position is None else self.file.integer(kind, position, f"{self.where}: field {slot}")
        )

    def real(self, slot: int, default: float = 0.0) -> float:
        position = self._at(slot)
        if position is None:
            return default
        self.file.check(position, 4, f"{self.where}: field {slot}")
        return float(_F32.unpack_from(self.file.data, position)[0])

    def table(self, slot: int, what: str) -> "_Table | None":
        position = self._at(slot)
        return None if position is None else _Table(self.file, position, f"{self.where}: {what}")

    def vector(self, slot: int, size: int, what: str) -> tuple[int, int] | None:
        """Position of the first element and number of elements of `size` bytes; None where absent."""
        position = self._at(slot)
        if position is None:
            return None
        where = f"{self.where}: {what}"
        start = position + self.file.integer(_U32, position, where)
        count = self.file.integer(_U32, start, where)
        self.file.check(start + 4, count * size, where)
        return start + 4, count

    def read(self, slot: int, size: int, what: str) -> bytes:
        """Bytes of a vector of elements of `size` bytes; empty where absent."""
        vector = self.vector(slot, size, what)
        if vector is None:
            return b""
        start, count = vector
        self.file.vector_bytes_left -= count * size
        if self.file.vector_bytes_left < 0:
            raise ModelFileError(f"{self.where}: {what}: the file refers to the same bytes over and over")
        return self.file.data[start : start + count * size]

    def integers(self, slot: int, kind: struct.Struct, what: str) -> tuple[int, ...]:
        data = self.read(slot, kind.size, what)
        return struct.unpack(f"<{len(data) // kind.size}{kind.format[-1]}", data)

    def reals(self, slot: int, what: str) -> tuple[float, ...]:
        data = self.read(slot, 4, what)
        return struct.unpack(f"<{len(data) // 4}f", data)

    def text(self, slot: int, what: str) -> str:
        data = self.read(slot, 1, what)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"{self.where}: {what} is not UTF-8: {error.reason} at {error.start}"
            ) from None

    def tables(self, slot: int, what: str) -> "Iterator[_Table]":
        """The tables of a vector of offsets, each named by `what` and its index."""
        start, count = self.vector(slot, 4, f"{what}s") or (0, 0)
        for index in range(count):
            yield _Table(self.file, start + 4 * index, f"{what} {index}")


_ROOT: Final = "the model"


def _root(data: bytes) -> _Table:
    if len(data) < 8:
        raise ModelFileError(f"not a TensorFlow Lite file: it has {len(data)} bytes, too few for a header")
    if data[4:8] != FILE_IDENTIFIER:
        raise ModelFileError(f"not a TensorFlow Lite file: bytes 4 to 7 are {data[4:8]!r}, not TFL3")
    root = _Table(_File(data), 0, _ROOT)
    version = root.integer(0, _U32)
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(f"schema version {version}, expected {SCHEMA_VERSION}")
    return root


# The schema: fields are named in schema.fbs, in the order of their numbers.


_BUILTIN_NAMES: Final = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
    FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
    SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
    UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
    UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
    DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
    GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL
    LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT
    LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
    RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N
    GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF
    WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
    PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
    READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL
    GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM
    ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
    STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP
    STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
    STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
    STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER
    STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER
    STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD
    STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
    STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
    STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
"""
BUILTIN_OPERATORS: Final = tuple(_BUILTIN_NAMES.split())
"""Names of the builtin operators, by their number in the schema."""


class _Code(NamedTuple):
    name: str
    is_custom: bool


def _operator_code(table: _Table) -> _Code:
    # Old files have the code in a byte, new ones in a word; the other field is 0 or a placeholder below it.
    code = max(table.integer(0, _I8), table.integer(3, _I32))
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
    file: _File
    start: int
    size: int


def _buffer(table: _Table) -> _Buffer:
    start, size = table.vector(0, 1, "data") or (0, 0)
    outside = table.integer(1, _U64)
    if outside > 1:  # data behind the flatbuffer, for files above 2 GiB; 0 and 1 stand for none
        start, size = outside, table.integer(2, _U64)
        table.file.check(start, size, f"{table.where}: data")
    return _Buffer(table.file, start, size)


def _metadata(table: _Table, buffers: list[_Buffer]) -> Metadata:
    index = table.integer(1, _U32)
    if index >= len(buffers):
        raise ModelFileError(f"{table.where} names buffer {index} of {len(buffers)}")
    buffer = buffers[index]
    table.file.vector_bytes_left -= buffer.size
    if table.file.vector_bytes_left < 0:
        raise ModelFileError(f"{table.where}: the file refers to the same bytes over and over")
    return Metadata(table.text(0, "name"), buffer.file.data[buffer.start : buffer.start + buffer.size])


_Subgraph = tuple[tuple[Tensor, ...], tuple[Operator, ...], tuple[int, ...], tuple[int, ...]]


def _subgraph(table: _Table, codes: list[_Code], buffers: list[_Buffer]) -> _Subgraph:
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


def _indices(table: _Table, slot: int, where: str, tensor_count: int, *, lowest: int = 0) -> tuple[int, ...]:
    indices = table.integers(slot, _I32, "tensors")
    for index in indices:
        if not lowest <= index < tensor_count:
            raise ModelFileError(f"{where} names tensor {index} of {tensor_count}")
    return indices


def _tensor(index: int, table: _Table, buffers: list[_Buffer]) -> Tensor:
    number = table.integer(1, _I8)
    try:
        kind = TensorType(number)
    except ValueError:
        raise ModelFileError(f"{table.where} has type {number}, which the schema does not know") from None
    shape = table.integers(0, _I32, "shape")
    nbytes = _size(table.where, shape, kind)

    buffer_index = table.integer(2, _U32)
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
        is_variable=bool(table.integer(5, _U8)),
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


def _quantization(tensor: _Table, shape: tuple[int, ...]) -> Quantization | None:
    table = tensor.table(4, "quantization")
    if table is None:
        return None
    scales = table.reals(2, "scales")
    zero_points = table.integers(3, _I64, "zero points")
    if not scales or not zero_points:
        return None
    if len(zero_points) not in (1, len(scales)):
        raise ModelFileError(f"{tensor.where} has {len(scales)} scales, but {len(zero_points)} zero points")
    dimension = table.integer(6, _I32)
    # With a single scale the dimension means nothing, and files exist where it is out of range.
    if len(scales) > 1 and (not 0 <= dimension < len(shape) or shape[dimension] != len(scales)):
        raise ModelFileError(
            f"{tensor.where} has {len(scales)} scales for dimension {dimension} of shape {list(shape)}"
        )
    return Quantization(scales, zero_points, dimension)


def _operator(index: int, table: _Table, codes: list[_Code], tensor_count: int) -> Operator:
    code_index = table.integer(0, _U32)
    if code_index >= len(codes):
        raise ModelFileError(f"{table.where} names operator code {code_index} of {len(codes)}")
    code = codes[code_index]
    return Operator(
        index=index,
        name=code.name,
        inputs=_indices(table, 1, table.where, tensor_count, lowest=_NO_TENSOR),
        outputs=_indices(table, 2, table.where, tensor_count),
        options=Options() if code.is_custom else _options(table, code.name),
        is_custom=code.is_custom,
    )


class _OptionsTable(NamedTuple):
    """A table of the union BuiltinOptions: its number, and the numbers of its fields."""

    kind: int
    sizes: Mapping[str, int]
    """Extents that a kernel divides or loops by: at least 1, or it would crash."""
    activation: int | None = None
    padding: int | None = None


_CONV: Final = _OptionsTable(1, {"stride_w": 1, "stride_h": 2, "dilation_w": 4, "dilation_h": 5}, 3, 0)
_DEPTHWISE: Final = _OptionsTable(
    2, {"stride_w": 1, "stride_h": 2, "depth_multiplier": 3, "dilation_w": 5, "dilation_h": 6}, 4, 0
)
_POOL: Final = _OptionsTable(5, {"stride_w": 1, "stride_h": 2, "kernel_w": 3, "kernel_h": 4}, 5, 0)
_TRANSPOSE_CONV: Final = _OptionsTable(49, {"stride_w": 1, "stride_h": 2}, 3, 0)
_SOFTMAX: Final = 9

_OPTIONS: Final = {
    "CONV_2D": _CONV,
    "DEPTHWISE_CONV_2D": _DEPTHWISE,
    "TRANSPOSE_CONV": _TRANSPOSE_CONV,
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "FULLY_CONNECTED": _OptionsTable(8, {}, 0),
    "CONCATENATION": _OptionsTable(10, {}, 1),
    "ADD": _OptionsTable(11, {}, 0),
    "MUL": _OptionsTable(21, {}, 0),
    "SUB": _OptionsTable(28, {}, 0),
    "SOFTMAX": _OptionsTable(_SOFTMAX, {}),
}


def _options(operator: _Table, name: str) -> Options:
    layout = _OPTIONS.get(name)
    if layout is None:
        return Options()
    where = f"{operator.where} ({name})"
    table = operator.table(4, "options") if operator.integer(3, _U8) == layout.kind else None
    if table is None:
        if layout.sizes:
            raise ModelFileError(f"{where} has no options, so no strides")
        return Options()
    sizes = {
        field: table.integer(slot, _I32, int("dilation" in field)) for field, slot in layout.sizes.items()
    }
    for field, size in sizes.items():
        if size < (0 if field == "depth_multiplier" else 1):
            raise ModelFileError(f"{where} has {field} {size}, which must be positive")
    return Options(
        padding=_choice(table, where, layout.padding, Padding),
        activation=_choice(table, where, layout.activation, Activation),
        beta=table.real(0) if layout.kind == _SOFTMAX else 1.0,
        **sizes,
    )


_Choice = TypeVar("_Choice", bound=enum.IntEnum)


def _choice(table: _Table, where: str, slot: int | None, kind: type[_Choice]) -> _Choice:
    number = 0 if slot is None else table.integer(slot, _I8)
    try:
        return kind(number)
    except ValueError:
        raise ModelFileError(
            f"{where} has {kind.__name__.lower()} {number}, which the schema does not know"
        ) from None
