"""Operators that move elements and change none: copies, padding, transposing, joining, resizing."""

import numpy as np

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.operator_node import OperatorNode, same_quantization, same_type, shape4
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.model import Activation, TensorType


def copy(node: OperatorNode) -> Kernel:
    """Prepare RESHAPE, SQUEEZE, EXPAND_DIMS: the output's own shape says what becomes of the input's."""
    node.expect(2, optional=1)
    source, output = node.input(0), node.output()
    same_type(source, output)
    if len(source.buffer) != len(output.buffer):
        raise GraphError(f"{source} of shape {list(source.shape)} does not become {list(output.shape)}")
    return _copy(source, output)


def _copy(source: GraphTensor, output: GraphTensor) -> Kernel:
    read, write = source.buffer, output.buffer

    def kernel() -> None:
        write[:] = read

    return kernel


def pad(node: OperatorNode) -> Kernel:
    """Prepare PAD: pairs of elements before and after each dimension, filled with a real of 0."""
    node.expect(2)
    source, output, amounts = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    same_quantization(source, output)
    rank = len(source.shape)
    if len(amounts) != 2 * rank or min(amounts, default=0) < 0:
        raise GraphError(f"paddings are {amounts}, expected {rank} pairs that are not negative")
    before, after = amounts[::2], amounts[1::2]
    shape = tuple(a + extent + b for a, extent, b in zip(before, source.shape, after, strict=True))
    _expect_shape(output, shape)
    is_quantized = source.tensor.type in (TensorType.INT8, TensorType.UINT8)
    fill = output.quantization.zero_point if is_quantized else 0
    whole, read = output.array, source.array
    inner = whole[tuple(slice(a, a + extent) for a, extent in zip(before, source.shape, strict=True))]

    def kernel() -> None:
        whole.fill(fill)
        inner[...] = read

    return kernel


def transpose(node: OperatorNode) -> Kernel:
    """Prepare TRANSPOSE: dimension i of the output is dimension perm[i] of the input."""
    node.expect(2)
    source, output, permutation = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    if sorted(permutation) != list(range(len(source.shape))):
        raise GraphError(f"{permutation} is no permutation of {len(source.shape)} dimensions")
    view, write = source.array.transpose(permutation), output.array
    _expect_shape(output, view.shape)

    def kernel() -> None:
        write[...] = view

    return kernel


def concatenation(node: OperatorNode) -> Kernel:
    """Prepare CONCATENATION of inputs that are quantized as the output is."""
    if not node.inputs or len(node.outputs) != 1:
        raise GraphError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    if node.operator.options.activation is not Activation.NONE:
        raise GraphError("a fused activation, which no converter writes")
    output = node.output()
    axis = dimension(node.options.integer("axis"), output)
    whole, start = output.array, 0
    parts = []
    for number in range(len(node.inputs)):
        source = node.input(number)
        same_type(source, output)
        same_quantization(source, output)
        length = source.shape[axis] if axis < len(source.shape) else 0
        part = whole[(slice(None),) * axis + (slice(start, start + length),)]
        if part.shape != source.shape:
            raise GraphError(
                f"{source} of shape {list(source.shape)} does not fit behind {start} of {list(output.shape)}"
            )
        parts.append((part, source.array))
        start += length
    if start != output.shape[axis]:
        raise GraphError(f"the inputs have {start} elements along {axis}, the output {output.shape[axis]}")

    def kernel() -> None:
        for part, source in parts:
            part[...] = source

    return kernel


def resize_nearest_neighbor(node: OperatorNode) -> Kernel:
    """Prepare RESIZE_NEAREST_NEIGHBOR. Source: `resize_nearest_neighbor.h`, in float32."""
    node.expect(2)
    source, output, size = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    batch, height, width, channels = shape4(source)
    if len(size) != 2:
        raise GraphError(f"the new size is {size}, expected height and width")
    _expect_shape(output, (batch, *size, channels))
    align, half = node.options.integer("align_corners"), node.options.integer("half_pixel_centers")
    rows = _nearest(height, size[0], align_corners=bool(align), half_pixel_centers=bool(half))
    columns = _nearest(width, size[1], align_corners=bool(align), half_pixel_centers=bool(half))
    read, write = source.array, output.array
    index = np.ix_(np.arange(batch), rows, columns)

    def kernel() -> None:
        write[...] = read[index]

    return kernel


def _nearest(
    inputs: int, outputs: int, *, align_corners: bool, half_pixel_centers: bool
) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    one = np.float32(1)
    scale = (
        np.float32(inputs - 1) / np.float32(outputs - 1)
        if align_corners and outputs > 1
        else np.float32(inputs) / np.float32(outputs)
    )
    offset = one / np.float32(2) if half_pixel_centers else np.float32(0)
    places = (np.arange(outputs, dtype=np.float32) + offset) * scale
    # C's roundf takes halves away from zero, and places are never negative.
    nearest = np.floor(places + np.float32(0.5)) if align_corners else np.floor(places)
    indices: np.ndarray[tuple[int], np.dtype[np.intp]] = np.minimum(nearest.astype(np.intp), inputs - 1)
    return indices


def dimension(axis: int, tensor: GraphTensor) -> int:
    """The dimension that an axis names, counted from the end where it is negative; GraphError."""
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise GraphError(f"there is no dimension {axis} in shape {list(tensor.shape)}")
    return axis % rank


def _expect_shape(output: GraphTensor, shape: tuple[int, ...]) -> None:
    if output.shape != shape:
        raise GraphError(f"{output} has shape {list(output.shape)}, the result has {list(shape)}")
