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
        """Bits of one element; 0 where the type alone does not tell (STRING, VARIANT)."""
        return _BITS[self]


# By the number of the type; a resource is a 32-bit handle.
_BITS: Final = (32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 32, 0, 32, 16, 4, 16)


class Padding(enum.IntEnum):
    """How a window treats the border of its input."""

    SAME = 0
    """The input is padded, so that the output has ceil(inputs / stride) elements."""
    VALID = 1
    """There is no padding: windows lie within the input."""


class Activation(enum.IntEnum):
    """Activation fused into an operator."""

    NONE = 0
    """No activation."""
    RELU = 1
    """At least 0."""
    RELU_N1_TO_1 = 2
    """-1 to 1."""
    RELU6 = 3
    """0 to 6."""
    TANH = 4
    """The hyperbolic tangent."""
    SIGN_BIT = 5
    """The sign of the value."""


class Quantization(Struct, frozen=True):
    """real = scale * (integer - zero point): one pair for the tensor, or one for each index of `dimension`.

    `zero_points` has as many entries as `scales`, or one that holds for all.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int = 0

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int) -> Self:
        """One scale and zero point for a whole tensor."""
        return cls((scale,), (zero_point,))

    @classmethod
    def per_channel(cls, scales: Iterable[float], dimension: int) -> Self:
        """One scale for each index of `dimension`, every zero point 0: int8 weights and their biases."""
        values = tuple(float(scale) for scale in scales)
        return cls(values, (0,) * len(values), dimension)

    @property
    def is_per_channel(self) -> bool:
        """Whether there is more than one scale."""
        return len(self.scales) > 1

    @property
    def scale(self) -> float:
        """The scale of the whole tensor; ValueError where it is quantized per channel."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """The zero point of the whole tensor; ValueError where there is one for each channel."""
        (zero_point,) = self.zero_points
        return zero_point


class Tensor(Struct, frozen=True):
    """A tensor of a subgraph. An empty shape is a scalar."""

    name: str
    """The file's name for it."""
    shape: tuple[int, ...]
    type: TensorType
    """The type of its elements."""
    quantization: Quantization | None = None
    """How its integers stand for reals; None for other tensors."""
    data: bytes | memoryview | None = None
    """A constant's elements in row-major order, little-endian; None for what is computed, given or sparse."""
    is_variable: bool = False
    """Whether it keeps its value from one invocation to the next."""
    is_sparse: bool = False
    """Whether it is a constant of which the file holds fewer elements than its shape has."""
    index: int = 0
    """Its place among the tensors of the subgraph, which the reader knows."""

    def __repr__(self) -> str:
        """Show the type and shape, not the data, which may be megabytes."""
        return f"Tensor({self.name!r}, {self.shape}, {self.type!r})"

    @property
    def is_constant(self) -> bool:
        """Whether the file holds its data."""
        return self.data is not None or self.is_sparse

    @property
    def nbytes(self) -> int:
        """Size of its data; elements of fewer than 8 bits share bytes."""
        return (math.prod(self.shape) * TensorType(self.type).bits + 7) // 8


OptionValue: TypeAlias = "int | float | str | tuple[int, ...]"


class Options(Struct, frozen=True):
    """The options of a builtin operator, by the schema's names of the fields ("stride_w", "filter_height").

    What is not there has the default that the properties give. The kernel of a convolution is the shape of
    its weights; `kernel_w` and `kernel_h` are a pool's window. `name` is that of a field, `default` its value
    where the file leaves it out.
    """

    fields: Mapping[str, OptionValue] = field(default_factory=dict)

    def integer(self, name: str, default: int = 0) -> int:
        """An integer, enumeration or flag; ValueError for anything else."""
        return int(self.fields.get(name, default))  # type: ignore[arg-type]  # not tuples

    def real(self, name: str, default: float = 0.0) -> float:
        """A real number; ValueError for anything else."""
        return float(self.fields.get(name, default))  # type: ignore[arg-type]  # not tuples

    @property
    def padding(self) -> Padding:
        """How windows treat the border."""
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
        """Output channels for each input channel; 0 where shapes tell."""
        return self.integer("depth_multiplier")

    @property
    def beta(self) -> float:
        """The factor in the exponent of a softmax."""
        return self.real("beta", 1.0)


class Operator(Struct, frozen=True):
    """An operator of a subgraph; tensors are indices, an input that is left out is -1.

    `name` is the builtin's ("CONV_2D"), or a custom operator's own.
    """

    index: int
    """Its place in execution order."""
    name: str
    inputs: tuple[int, ...]
    """Indices of its input tensors."""
    outputs: tuple[int, ...]
    """Indices of its output tensors."""
    options: Options = Options()
    """The fields of its options, such as strides."""
    is_custom: bool = False
    """Whether it is not one of the builtins."""
    custom_options: bytes = b""
    """The options of a custom operator, in whatever form its kernel reads."""


class Metadata(Struct, frozen=True):
    """A named blob of the file."""

    name: str
    data: bytes


class Subgraph(Struct, frozen=True):
    """A subgraph besides the main one, which operators of control flow run; operators in execution order."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    """Indices of its inputs."""
    outputs: tuple[int, ...]
    """Indices of its outputs."""


class Model(Struct, frozen=True):
    """A model: the tensors and operators of its main subgraph (the first), operators in execution order."""

    version: int
    """The version of the schema."""
    description: str
    """A text of the program that wrote the file."""
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    """Indices of the input tensors."""
    outputs: tuple[int, ...]
    """Indices of the output tensors."""
    metadata: tuple[Metadata, ...] = ()
    """Named blobs of the file."""
    other_subgraphs: tuple[Subgraph, ...] = ()
    """Subgraphs 1, 2, …"""
    memory: tuple[int, int] | None = None
    """Bytes of tensors, and of the structures beside them, where the model tells itself; no file does."""

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The model's inputs in the order in which the device numbers them."""
        return tuple(self.tensors[index] for index in self.inputs)

    @property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """The model's outputs in the order in which the device numbers them."""
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
