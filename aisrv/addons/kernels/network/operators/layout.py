"""Operators that move elements and change none: copies, padding, transposing, joining, blocks."""

from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backend import CopyingBackend, Kernel
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import (
    OperatorNode,
    copies,
    expect_shape,
    same_quantization,
    same_type,
    shape4,
)
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.params import PadParams
from aisrv.model import Activation, TensorType

_PICTURES: Final = 4
"""Dimensions of pictures: batch, height, width, channels."""
_REFLECT: Final = 0
_SYMMETRIC: Final = 1


def copy(node: OperatorNode) -> Kernel:
    """Prepare RESHAPE, SQUEEZE, EXPAND_DIMS: the output's own shape says what becomes of the input's."""
    node.expect(2, optional=1)
    source, output = node.input(0), node.output()
    same_type(source, output)
    if len(source.buffer) != len(output.buffer):
        raise NetworkError(f"{source} of shape {list(source.shape)} does not become {list(output.shape)}")
    if isinstance(node.backend, CopyingBackend):
        return node.backend.copy(source.buffer, output.buffer)
    return copies((np.asarray(output.buffer), np.asarray(source.buffer)))


def pad(node: OperatorNode) -> Kernel:
    """Prepare PAD and PADV2: pairs of elements before and after each dimension.

    They are filled with a third input of one element, without one with a real of 0.
    """
    node.expect(3, optional=1)
    source, output, amounts = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    same_quantization(source, output)
    rank = len(source.shape)
    if len(amounts) != 2 * rank or min(amounts, default=0) < 0:
        raise NetworkError(f"paddings are {amounts}, expected {rank} pairs that are not negative")
    before, after = amounts[::2], amounts[1::2]
    shape = tuple(a + extent + b for a, extent, b in zip(before, source.shape, after, strict=True))
    expect_shape(output, shape)
    fill, is_constant = _filling(node, output)
    is_bytes = source.array.itemsize == 1 or not any(fill.tobytes())
    if (
        is_constant
        and is_bytes
        and rank == _PICTURES
        and not (before[0] or after[0] or before[3] or after[3])
    ):
        (batch, height, width, depth), (_, out_height, out_width, _) = source.shape, output.shape
        pixel = depth * source.array.itemsize
        params = PadParams(
            source.buffer,
            (batch, height, width, pixel),
            output.buffer,
            (batch, out_height, out_width, pixel),
            top=before[1],
            left=before[2],
            fill=int.from_bytes(fill.tobytes()[:1], signed=True),
        )
        if isinstance(node.backend, CopyingBackend):
            with suppress(NotImplementedError):
                return node.backend.pad(params)
    whole, read = output.array, source.array
    inner = whole[tuple(slice(a, a + extent) for a, extent in zip(before, source.shape, strict=True))]

    def kernel() -> None:
        whole[...] = fill
        inner[...] = read

    return kernel


def _filling(node: OperatorNode, output: NetworkTensor) -> tuple[npt.NDArray[Any], bool]:
    """The element that PAD writes, as an array of one, and whether it is always the same."""
    value = node.optional_input(2)
    if value is None:
        is_quantized = output.tensor.type in (TensorType.INT8, TensorType.UINT8)
        zero = output.quantization.zero_point if is_quantized else 0
        return np.full(1, zero, output.array.dtype), True
    same_type(value, output)
    same_quantization(value, output)
    if value.array.size != 1:
        raise NetworkError(f"{value} has {value.array.size} elements, must have one")
    return value.array.reshape(1), value.tensor.is_constant


def transpose(node: OperatorNode) -> Kernel:
    """Prepare TRANSPOSE: dimension i of the output is dimension perm[i] of the input."""
    node.expect(2)
    source, output, permutation = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    if sorted(permutation) != list(range(len(source.shape))):
        raise NetworkError(f"{permutation} is not a permutation of {len(source.shape)} dimensions")
    view = source.array.transpose(permutation)
    expect_shape(output, view.shape)
    return copies((output.array, view))


def concatenation(node: OperatorNode) -> Kernel:
    """Prepare CONCATENATION of inputs that are quantized as the output is."""
    if not node.inputs or len(node.outputs) != 1:
        raise NetworkError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    if node.operator.options.activation is not Activation.NONE:
        raise NetworkError("a fused activation, which no converter writes")
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
            raise NetworkError(
                f"{source} of shape {list(source.shape)} does not fit behind {start} of {list(output.shape)}"
            )
        parts.append((part, source.array))
        start += length
    if start != output.shape[axis]:
        raise NetworkError(f"the inputs have {start} elements along {axis}, the output {output.shape[axis]}")
    return copies(*parts)


def mirror_pad(node: OperatorNode) -> Kernel:
    """Prepare MIRROR_PAD: pairs of elements before and after each dimension, as in a mirror.

    The mode REFLECT does not repeat the elements at the border, SYMMETRIC does.
    """
    node.expect(2)
    source, output, amounts = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    same_quantization(source, output)
    rank, mode = len(source.shape), node.options.integer("mode")
    if mode not in (_REFLECT, _SYMMETRIC):
        raise NetworkError(f"mode is {mode}, must be REFLECT (0) or SYMMETRIC (1)")
    if len(amounts) != 2 * rank or min(amounts, default=0) < 0:
        raise NetworkError(f"paddings are {amounts}, expected {rank} pairs that are not negative")
    places = []
    for extent, before, after in zip(source.shape, amounts[::2], amounts[1::2], strict=True):
        if max(before, after) > extent - (mode == _REFLECT):
            raise NetworkError(
                f"paddings are {amounts}: {extent} elements have no mirror of {max(before, after)}"
            )
        inner = np.arange(extent)
        border = inner[1:] if mode == _REFLECT else inner
        tail = inner[:-1] if mode == _REFLECT else inner
        places.append(np.concatenate([border[:before][::-1], inner, tail[extent:None:-1][:after]]))
    expect_shape(output, tuple(map(len, places)))
    index, read, write = np.ix_(*places), source.array, output.array

    def kernel() -> None:
        write[...] = read[index]

    return kernel


def space_to_depth(node: OperatorNode) -> Kernel:
    """Prepare SPACE_TO_DEPTH: each square of `block_size` pixels becomes one with all their channels."""
    node.expect(1)
    source, output = node.input(0), node.output()
    same_type(source, output)
    block = _block_size(node)
    batch, height, width, channels = shape4(source)
    if height % block or width % block:
        raise NetworkError(f"{height} by {width} pixels do not divide into squares of {block}")
    rows, columns = height // block, width // block
    expect_shape(output, (batch, rows, columns, channels * block * block))
    view = source.array.reshape(batch, rows, block, columns, block, channels).swapaxes(2, 3)
    return copies((output.array.reshape(view.shape), view))


def depth_to_space(node: OperatorNode) -> Kernel:
    """Prepare DEPTH_TO_SPACE: each pixel becomes a square of `block_size`, of a part of its channels each."""
    node.expect(1)
    source, output = node.input(0), node.output()
    same_type(source, output)
    block = _block_size(node)
    batch, height, width, channels = shape4(source)
    if channels % (block * block):
        raise NetworkError(f"{channels} channels do not divide into squares of {block} by {block} pixels")
    depth = channels // (block * block)
    expect_shape(output, (batch, height * block, width * block, depth))
    view = source.array.reshape(batch, height, width, block, block, depth).swapaxes(2, 3)
    return copies((output.array.reshape(view.shape), view))


def _block_size(node: OperatorNode) -> int:
    block = node.options.integer("block_size")
    if block < 1:
        raise NetworkError(f"block_size is {block}, must be positive")
    return block


def dimension(axis: int, tensor: NetworkTensor) -> int:
    """The dimension that an axis names, counted from the end where it is negative; NetworkError."""
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise NetworkError(f"there is no dimension {axis} in shape {list(tensor.shape)}")
    return axis % rank
