"""A model as a value: its tensors and operators."""

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Final, Self, TypeAlias

from msgspec import Struct, field


class TensorType(enum.IntEnum):
    """Element type of a tensor, numbered as in the schema.

    The names are those of the elements: FLOAT32, FLOAT16, INT32, UINT8, INT64, STRING, BOOL, INT16,
    COMPLEX64, INT8, FLOAT64, COMPLEX128, UINT64, RESOURCE, VARIANT, UINT32, UINT16, INT4 and BFLOAT16.
    """

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
        """Bits of one element; 0 if the type alone does not tell (STRING, VARIANT)."""
        return _BITS[self]


# By the number of the type; a resource is a 32-bit handle.
_BITS: Final = (32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 32, 0, 32, 16, 4, 16)


class Padding(enum.IntEnum):
    """Treatment of the border of an input by windows."""

    SAME = 0
    """The input is padded, so that the output has ceil(inputs / stride) elements."""
    VALID = 1
    """Windows lie within the input."""


class Activation(enum.IntEnum):
    """Activation fused into an operator."""

    NONE = 0
    RELU = 1
    """At least 0."""
    RELU_N1_TO_1 = 2
    """-1 to 1."""
    RELU6 = 3
    """0 to 6."""
    TANH = 4
    SIGN_BIT = 5


class Quantization(Struct, frozen=True):
    """real = scale * (integer - zero point): one pair for the tensor, or one for each index of `dimension`.

    `zero_points` has as many entries as `scales`, or one that holds for all.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int = 0

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int) -> Self:
        """Create one scale and zero point for a whole tensor."""
        return cls((scale,), (zero_point,))

    @classmethod
    def per_channel(cls, scales: Iterable[float], dimension: int) -> Self:
        """One scale for each index of `dimension`, every zero point 0: int8 weights and their biases."""
        values = tuple(float(scale) for scale in scales)
        return cls(values, (0,) * len(values), dimension)

    @property
    def is_per_channel(self) -> bool:
        """Return whether there is more than one scale."""
        return len(self.scales) > 1

    @property
    def scale(self) -> float:
        """Scale of the whole tensor; ValueError if it is quantized per channel."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """Zero point of the whole tensor; ValueError if there is one for each channel."""
        (zero_point,) = self.zero_points
        return zero_point


class Tensor(Struct, frozen=True):
    """A tensor of a subgraph. An empty shape is a scalar."""

    name: str
    """Name in the file."""
    shape: tuple[int, ...]
    type: TensorType
    quantization: Quantization | None = None
    """Quantization of integers that stand for reals; None for other tensors."""
    data: bytes | memoryview | None = None
    """A constant's elements in row-major order, little-endian; None for other tensors and sparse ones."""
    is_variable: bool = False
    """Whether it keeps its value from one invocation to the next."""
    is_sparse: bool = False
    """Whether it is a constant of which the file holds fewer elements than its shape has."""
    index: int = 0
    """Position among the tensors of the subgraph, which the reader knows."""

    def __repr__(self) -> str:
        """Show the type and shape, not the data, which may be megabytes."""
        return f"Tensor({self.name!r}, {self.shape}, {self.type!r})"

    @property
    def is_constant(self) -> bool:
        """Return whether the file holds its data."""
        return self.data is not None or self.is_sparse

    @property
    def nbytes(self) -> int:
        """Size of its data; elements of fewer than 8 bits share bytes."""
        return (math.prod(self.shape) * TensorType(self.type).bits + 7) // 8


OptionValue: TypeAlias = "int | float | str | tuple[int, ...]"


class Options(Struct, frozen=True):
    """The options of a builtin operator, by the schema's names of the fields ("stride_w", "filter_height").

    Absent fields have the defaults that the properties give. The kernel of a convolution is the shape of its
    weights; `kernel_w` and `kernel_h` are a pool's window.
    """

    fields: Mapping[str, OptionValue] = field(default_factory=dict)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer, enumeration or flag; ValueError for anything else."""
        return int(self.fields.get(name, default))  # type: ignore[arg-type]  # not tuples

    def real(self, name: str, default: float = 0.0) -> float:
        """Return a real number; ValueError for anything else."""
        return float(self.fields.get(name, default))  # type: ignore[arg-type]  # not tuples

    @property
    def padding(self) -> Padding:
        """Treatment of the border by windows."""
        return Padding(self.integer("padding"))

    @property
    def activation(self) -> Activation:
        """The fused activation."""
        return Activation(self.integer("fused_activation_function"))

    @property
    def stride_w(self) -> int:
        """Elements from one window to the next in a row."""
        return self.integer("stride_w", 1)

    @property
    def stride_h(self) -> int:
        """Rows from one window to the next."""
        return self.integer("stride_h", 1)

    @property
    def dilation_w(self) -> int:
        """Elements from one tap to the next in a row."""
        return self.integer("dilation_w_factor", 1)

    @property
    def dilation_h(self) -> int:
        """Rows from one tap to the next."""
        return self.integer("dilation_h_factor", 1)

    @property
    def kernel_w(self) -> int:
        """Elements of a pool's window in a row."""
        return self.integer("filter_width", 1)

    @property
    def kernel_h(self) -> int:
        """Rows of a pool's window."""
        return self.integer("filter_height", 1)

    @property
    def depth_multiplier(self) -> int:
        """Output channels for each input channel; 0 if shapes tell."""
        return self.integer("depth_multiplier")

    @property
    def beta(self) -> float:
        """Factor in the exponent of a softmax."""
        return self.real("beta", 1.0)


class Operator(Struct, frozen=True):
    """An operator of a subgraph; tensors are indices, an input that is left out is -1.

    `name` is the builtin's ("CONV_2D"), or a custom operator's own.
    """

    index: int
    """Position in execution order."""
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options = Options()
    is_custom: bool = False
    custom_options: bytes = b""
    """Options of a custom operator, in its kernel's form."""


class Metadata(Struct, frozen=True):
    """A named blob of the file."""

    name: str
    data: bytes


class Subgraph(Struct, frozen=True):
    """A subgraph besides the main one, which operators of control flow run; operators in execution order."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Model(Struct, frozen=True):
    """A model: the tensors and operators of its main subgraph (the first), operators in execution order."""

    version: int
    description: str
    """Text of the program that wrote the file."""
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: tuple[Metadata, ...] = ()
    other_subgraphs: tuple[Subgraph, ...] = ()
    """Subgraphs 1, 2, …"""
    memory: tuple[int, int] | None = None
    """Bytes of tensors, and of the structures beside them, if the model tells itself; no file does."""

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """Tensors in the order in which the device numbers them."""
        return tuple(self.tensors[index] for index in self.inputs)

    @property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """Tensors in the order in which the device numbers them."""
        return tuple(self.tensors[index] for index in self.outputs)

    @property
    def has_variables(self) -> bool:
        """Whether it keeps anything from run to run: variable tensors, or resources that operators assign."""
        return any(tensor.is_variable for tensor in self.tensors) or any(
            operator.name == "VAR_HANDLE" for operator in self.operators
        )

    @property
    def input_bytes(self) -> int:
        """Total size of the inputs in bytes."""
        return sum(tensor.nbytes for tensor in self.input_tensors)

    @property
    def output_bytes(self) -> int:
        """Total size of the outputs in bytes."""
        return sum(tensor.nbytes for tensor in self.output_tensors)
