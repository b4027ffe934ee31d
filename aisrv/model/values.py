"""A model as a value: its tensors and operators."""

import enum
from dataclasses import dataclass
from typing import Final


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
        """The scale of the whole tensor; ValueError where it is quantized per channel."""
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
    custom_options: bytes = b""
    """The options of a custom operator, in whatever form its kernel reads."""


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
