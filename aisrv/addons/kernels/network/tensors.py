"""Tensors in memory: the arena as a plan lays it out, constants in the file, variables beside both."""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.params import Buffer, QuantParam
from aisrv.model import Model, Tensor, TensorType
from aisrv.model.arena_plan import ArenaPlan
from aisrv.model.control_flow import Step, Walk, all_tensors
from aisrv.model.dtypes import DTYPES

BASE_ALIGNMENT: Final = 64
"""Bytes to which memory is aligned: a cache line, and more than kernels ask for."""

_ZERO_POINTS: Final = {
    TensorType.INT8: (-128, 127),
    TensorType.UINT8: (0, 255),
    TensorType.INT16: (-32768, 32767),
    TensorType.INT32: (-(1 << 31), (1 << 31) - 1),
    TensorType.INT4: (-8, 7),
}

_FORMATS: Final[Mapping[TensorType, Literal["b", "h", "f"]]] = {
    TensorType.INT16: "h",
    TensorType.FLOAT32: "f",
}
"""Of memoryviews of elements that are more than bytes."""


class NetworkTensor:
    """One tensor: what the model says of it, and its bytes. Bytes of constants are read-only."""

    __slots__ = ("buffer", "tensor")

    def __init__(self, tensor: Tensor, buffer: Buffer) -> None:
        """Join a tensor and its memory: signed bytes, format "b"."""
        self.tensor: Final = tensor
        self.buffer: Final = buffer

    def __str__(self) -> str:
        """Name it for messages."""
        return f"tensor {self.tensor.index}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self.tensor.shape

    @property
    def array(self) -> npt.NDArray[Any]:
        """A view of its elements; NetworkError for a type that has none of a fixed size here."""
        dtype = DTYPES.get(self.tensor.type)
        if dtype is None:
            raise NetworkError(f"{self} is of type {self.tensor.type.name}, for which there is no code")
        return np.frombuffer(self.buffer, dtype).reshape(self.shape)

    @property
    def elements(self) -> Buffer:
        """Its bytes as elements of its type, which is one of 8 or 16 bits, or float32."""
        return typed(self.buffer, self.tensor.type)

    @property
    def quantization(self) -> QuantParam:
        """The one scale and zero point of a quantized tensor; NetworkError where none serves."""
        quantization = self.tensor.quantization
        limits = _ZERO_POINTS.get(self.tensor.type)
        if quantization is None or limits is None or quantization.is_per_channel:
            raise NetworkError(f"{self} is not quantized with one scale")
        scale, zero_point = quantization.scale, quantization.zero_point
        if not 0.0 < scale < float("inf"):
            raise NetworkError(f"{self} has the scale {scale}, which must be positive and finite")
        if not limits[0] <= zero_point <= limits[1]:
            raise NetworkError(f"{self} has the zero point {zero_point}, outside of its type's range")
        return QuantParam(scale, zero_point)


def typed(buffer: Buffer, kind: TensorType) -> Buffer:
    """Bytes as elements of a type, which is one of 8 or 16 bits, or float32."""
    elements: Any = buffer.cast("B").cast(_FORMATS.get(kind, "b"))
    return cast("Buffer", elements)


class NetworkMemory:
    """The memory of a network: the bytes of all subgraphs' tensors, and scratch by subgraph and operator."""

    def __init__(self, model: Model, plan: ArenaPlan) -> None:
        """Allocate the arena (zeros) and variables; MemoryError where the host has not that much."""
        self.arena: Final = allocate(plan.head)
        buffers = {
            each.tensor: self.arena[each.offset : each.offset + each.size] for each in plan.allocations
        }
        # Scratch buffers are numbered behind the tensors.
        tensors, steps = all_tensors(model), Walk(model).steps
        self.scratch: Final = {
            _place(steps[each.first - 1]): buffers[each.tensor]
            for each in plan.allocations
            if each.tensor >= len(tensors) and each.first > 0
        }
        self.tensors: Final = tuple(NetworkTensor(tensor, _buffer(tensor, buffers)) for tensor in tensors)


def _place(step: Step) -> tuple[int, int]:
    """The subgraph of a step, and its operator's number, -1 for a call."""
    return step.subgraph, -1 if step.operator is None else step.operator.index


def _buffer(tensor: Tensor, buffers: dict[int, Buffer]) -> Buffer:
    if tensor.is_constant:
        if tensor.data is None:
            raise NetworkError(f"tensor {tensor.index} is sparse: only dense constants can be read")
        return memoryview(tensor.data).cast("b")
    if tensor.is_variable:
        variable = allocate(tensor.nbytes)
        if tensor.type is TensorType.INT8 and tensor.quantization is not None:
            # As TFLM resets variable tensors: an int8 real of 0.
            zero = tensor.quantization.zero_points[0]
            variable[:] = np.full(tensor.nbytes, np.array(zero).astype(np.int8), np.int8).data
        return variable
    return buffers.get(tensor.index, _EMPTY)[: tensor.nbytes]


def allocate(nbytes: int) -> Buffer:
    """Memory of zeros at a multiple of BASE_ALIGNMENT; MemoryError where the host has not that much."""
    memory = np.zeros(nbytes + BASE_ALIGNMENT, np.int8)
    start = -int(memory.__array_interface__["data"][0]) % BASE_ALIGNMENT
    return memoryview(memory.data).cast("b")[start : start + nbytes]


_EMPTY: Final[Buffer] = memoryview(bytearray()).cast("b")


class Variables:
    """The resource variables of one network by name, which stay from run to run.

    Source: TensorFlow Lite Micro, `micro_resource_variable.cc`: a variable is made with the size of the first
    tensor that is read from it or assigned to it, and starts with the byte of that tensor's zero point.
    """

    def __init__(self, nbytes: int) -> None:
        """Start without any; all of them together may take `nbytes`."""
        self._left = nbytes
        self._values: Final[dict[str, Buffer]] = {}
        self._handles: Final[dict[int, str]] = {}

    def name(self, handle: int, variable: str) -> None:
        """Register a tensor as the handle of a variable."""
        self._handles[handle] = variable

    def of(self, handle: int, nbytes: int, first: int) -> Buffer:
        """The bytes of the variable that a tensor stands for, each `first` in the beginning; NetworkError."""
        variable = self._handles.get(handle)
        if variable is None:
            raise NetworkError(f"tensor {handle} is not a handle of a variable")
        return self.named(variable, nbytes, first)

    def named(self, variable: str, nbytes: int, first: int) -> Buffer:
        """The bytes of a variable by its name; NetworkError where it has another size."""
        value = self._values.get(variable)
        if value is None:
            self._left -= nbytes
            if self._left < 0:
                raise NetworkError(f"variable {variable!r} of {nbytes} bytes does not fit the memory")
            value = memoryview(bytearray([first & 0xFF]) * nbytes).cast("b")
            self._values[variable] = value
        if len(value) != nbytes:
            raise NetworkError(f"variable {variable!r} has {len(value)} bytes, {nbytes} are read or assigned")
        return value
