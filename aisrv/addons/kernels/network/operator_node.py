"""An operator of a network that is being prepared, with its tensors and its backend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backend import Kernel, KernelBackend, Kernels, scale_product
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.network import PreparedSubgraph
from aisrv.addons.kernels.network.tensors import NetworkTensor, Variables
from aisrv.addons.kernels.params import (
    INT8,
    INT16,
    NO_SCRATCH,
    Buffer,
    ElementType,
    FusedActivation,
    ScaleProduct,
    Shape4,
)
from aisrv.model import Model, Operator, Options, TensorType

WIDEST_WINDOW: Final = 16
"""Windows may be so many times as large as what they move over: their cost follows from a file's size."""


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """An operator, its tensors in memory, and the backend that computes what has a kernel.

    Methods raise NetworkError for an operator that has not what they are asked for; who prepares the network
    puts the operator's name in front of the message.
    """

    operator: Operator
    model: Model
    inputs: tuple[NetworkTensor | None, ...]
    """None for an optional input that is left out."""
    outputs: tuple[NetworkTensor, ...]
    backend: KernelBackend
    int16: Kernels
    """Kernels of int16 activations: the backend's, or NumPy's where it has none."""
    variables: Variables
    subgraph: Callable[[int], PreparedSubgraph]
    """Prepares a subgraph of the model by its number."""
    scratch: Buffer = NO_SCRATCH

    def expect(self, inputs: int, outputs: int = 1, *, optional: int = 0) -> None:
        """Check the numbers of tensors; the last `optional` inputs may be missing."""
        if not inputs - optional <= len(self.inputs) <= inputs or len(self.outputs) != outputs:
            raise NetworkError(
                f"has {len(self.inputs)} inputs and {len(self.outputs)} outputs, "
                f"expected {inputs} and {outputs}"
            )

    def input(self, number: int, *types: TensorType) -> NetworkTensor:
        """An input that must be there, of one of the types where any are given, and not empty."""
        tensor = self.inputs[number] if number < len(self.inputs) else None
        if tensor is None:
            raise NetworkError(f"has no input {number}")
        return _checked(tensor, f"input {number}", types)

    def optional_input(self, number: int, *types: TensorType) -> NetworkTensor | None:
        """An input that may be left out."""
        if number >= len(self.inputs) or self.inputs[number] is None:
            return None
        return self.input(number, *types)

    def output(self, number: int = 0, *types: TensorType) -> NetworkTensor:
        """An output, of one of the types where any are given, and not empty."""
        return _checked(self.outputs[number], f"output {number}", types)

    def constant(self, number: int, *types: TensorType) -> NetworkTensor:
        """An input whose value the file holds."""
        tensor = self.input(number, *types)
        if not tensor.tensor.is_constant:
            raise NetworkError(f"input {number} (tensor {tensor.tensor.index}) must be a constant")
        return tensor

    def integers(self, number: int) -> list[int]:
        """The values of a constant input of int32 or int64, at most 64 of them."""
        tensor = self.constant(number, TensorType.INT32, TensorType.INT64)
        if tensor.array.size > 64:
            raise NetworkError(
                f"input {number} (tensor {tensor.tensor.index}) has {tensor.array.size} values"
            )
        values: list[int] = tensor.array.ravel().tolist()
        return values

    def kernels(self, tensor: NetworkTensor) -> tuple[ElementType, Kernels]:
        """Return the element type of an activation of 8 or 16 bits, and the kernels for it."""
        if tensor.tensor.type is TensorType.INT16:
            return INT16, self.int16
        return INT8, self.backend

    @property
    def scale_product(self) -> ScaleProduct:
        """Precision of the product of the scales of an input and of weights."""
        return scale_product(self.backend)

    @property
    def options(self) -> Options:
        """The operator's options."""
        return self.operator.options

    @property
    def activation(self) -> FusedActivation:
        """The fused activation."""
        return FusedActivation(self.options.activation.value)


def _checked(tensor: NetworkTensor, role: str, types: tuple[TensorType, ...]) -> NetworkTensor:
    kind = tensor.tensor.type
    if types and kind not in types:
        names = " or ".join(each.name for each in types)
        raise NetworkError(f"{role} (tensor {tensor.tensor.index}) is {kind.name}, must be {names}")
    if not len(tensor.buffer):
        raise NetworkError(f"{role} (tensor {tensor.tensor.index}) has no elements")
    return tensor


def shape4(tensor: NetworkTensor) -> Shape4:
    """The shape of a tensor of four dimensions."""
    if len(tensor.shape) != 4:
        raise NetworkError(f"{tensor} has shape {list(tensor.shape)}, must have four dimensions")
    a, b, c, d = tensor.shape
    return a, b, c, d


def same_shape(one: NetworkTensor, other: NetworkTensor) -> None:
    """Check that two tensors have one shape."""
    if one.shape != other.shape:
        raise NetworkError(
            f"{one} has shape {list(one.shape)}, {other} has {list(other.shape)}: must be equal"
        )


def expect_shape(tensor: NetworkTensor, shape: tuple[int, ...]) -> None:
    """Check that a tensor has the shape that an operator makes."""
    if tensor.shape != shape:
        raise NetworkError(f"{tensor} has shape {list(tensor.shape)}, expected {list(shape)}")


def broadcast_view(tensor: NetworkTensor, output: NetworkTensor) -> npt.NDArray[Any]:
    """View the elements of a tensor as of the output's shape, as NumPy and TFLM broadcast."""
    try:
        return np.broadcast_to(tensor.array, output.shape)
    except ValueError:
        raise NetworkError(
            f"{tensor} of shape {list(tensor.shape)} does not broadcast to {list(output.shape)}"
        ) from None


def same_type(one: NetworkTensor, other: NetworkTensor) -> None:
    """Check that two tensors have one type."""
    if one.tensor.type is not other.tensor.type:
        raise NetworkError(
            f"{one} is {one.tensor.type.name}, {other} is {other.tensor.type.name}: must be equal"
        )


def same_quantization(one: NetworkTensor, other: NetworkTensor) -> None:
    """Check that two tensors have one scale and zero point, where they are quantized at all."""
    if one.tensor.type in (TensorType.INT8, TensorType.UINT8):
        first, second = one.tensor.quantization, other.tensor.quantization
        if first is not None and second is not None and first != second:
            raise NetworkError(f"{one} and {other} are quantized differently: must be equal")


def symmetric(*tensors: NetworkTensor) -> None:
    """Check that quantized tensors have zero points of 0, as all of int16 have."""
    for tensor in tensors:
        zero = tensor.quantization.zero_point
        if zero:
            raise NetworkError(f"{tensor} has the zero point {zero}, of int16 must be 0")


def bound_window(sizes: Sequence[int], taps: Sequence[int], dilations: Sequence[int]) -> None:
    """Refuse windows that lie mostly outside of the elements that they move over."""
    for extent, count, dilation in zip(sizes, taps, dilations, strict=True):
        reach = (count - 1) * dilation + 1
        if reach > WIDEST_WINDOW * (extent + 1):
            raise NetworkError(f"a window of {reach} is far larger than the {extent} elements below it")


def copies(*pairs: tuple[npt.NDArray[Any], npt.NDArray[Any]]) -> Kernel:
    """Prepare copies into the first array of each pair of the second."""

    def kernel() -> None:
        for write, read in pairs:
            write[...] = read

    return kernel


def combined(
    function: Callable[..., Any], one: NetworkTensor, two: NetworkTensor, output: NetworkTensor
) -> Kernel:
    """Prepare a function of NumPy of two tensors that broadcast to the output."""
    left, right, write = broadcast_view(one, output), broadcast_view(two, output), output.array

    def kernel() -> None:
        function(left, right, out=write)

    return kernel
