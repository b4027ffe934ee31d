"""Operators that take parts of a tensor.

Sources: `strided_slice_logic.h`, `gather.cc` of TensorFlow Lite Micro.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, copies, expect_shape, same_type
from aisrv.addons.kernels.network.operators.layout import dimension
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

_MASKS: Final = (
    "begin_mask",
    "end_mask",
    "ellipsis_mask",
    "new_axis_mask",
    "shrink_axis_mask",
    "offset",
)


def strided_slice(node: OperatorNode) -> Kernel:
    """Prepare STRIDED_SLICE with masks for begin, end and dimensions that vanish; others are refused.

    A begin is brought into its dimension, and its mask wins, even where the dimension vanishes.
    """
    node.expect(4)
    source, output = node.input(0), node.output()
    same_type(source, output)
    begins, ends, strides = node.integers(1), node.integers(2), node.integers(3)
    rank = len(source.shape)
    if not len(begins) == len(ends) == len(strides) == rank:
        raise NetworkError(
            f"has {len(begins)} begins, {len(ends)} ends and {len(strides)} strides for {rank} dimensions"
        )
    masks = [node.options.integer(name) for name in _MASKS]
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask, offset = masks
    if ellipsis_mask or new_axis_mask or offset:
        raise NetworkError("ellipses, new axes and ends as offsets are not supported")
    if 0 in strides:
        raise NetworkError(f"strides are {strides}: none may be 0")
    index: list[slice] = []
    shape = []
    for number, extent in enumerate(source.shape):
        bit = 1 << number
        begin = None if begin_mask & bit else begins[number]
        end = None if end_mask & bit else ends[number]
        if shrink_mask & bit:
            if strides[number] < 0:
                raise NetworkError(
                    f"dimension {number} vanishes, and its stride is {strides[number]}, below 0"
                )
            first = slice(begin, None).indices(extent)[0]
            if first == extent:
                raise NetworkError(f"begin {begins[number]} is outside of dimension {number} of {extent}")
            index.append(slice(first, first + 1))
        else:
            index.append(slice(begin, end, strides[number]))
            shape.append(len(range(*index[-1].indices(extent))))
    if output.shape != tuple(shape):
        raise NetworkError(f"{output} has shape {list(output.shape)}, the slice has {shape}")
    view = source.array[tuple(index)]
    return copies((output.array.reshape(view.shape), view))


def slice_(node: OperatorNode) -> Kernel:
    """Prepare SLICE: a begin and a size for each dimension; -1 is all that is left."""
    node.expect(3)
    source, output = node.input(0), node.output()
    same_type(source, output)
    begins, sizes = node.integers(1), node.integers(2)
    if not len(begins) == len(sizes) == len(source.shape):
        raise NetworkError(
            f"has {len(begins)} begins and {len(sizes)} sizes for {len(source.shape)} dimensions"
        )
    index = []
    for number, (begin, size, extent) in enumerate(zip(begins, sizes, source.shape, strict=True)):
        end = extent if size == -1 else begin + size
        if not 0 <= begin <= end <= extent:
            raise NetworkError(f"begin {begin} and size {size} leave dimension {number} of {extent}")
        index.append(slice(begin, end))
    view = source.array[tuple(index)]
    expect_shape(output, view.shape)
    return copies((output.array, view))


def split(node: OperatorNode) -> Kernel:
    """Prepare SPLIT into equal parts; the axis comes first."""
    if len(node.inputs) != 2 or not node.outputs:
        raise NetworkError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    source = node.input(1)
    axis = dimension(_single(node, 0), source)
    if source.shape[axis] % len(node.outputs):
        raise NetworkError(f"{source.shape[axis]} elements do not divide into {len(node.outputs)} parts")
    length = source.shape[axis] // len(node.outputs)
    return _parts(node, source, axis, [length] * len(node.outputs))


def split_v(node: OperatorNode) -> Kernel:
    """Prepare SPLIT_V into parts of given sizes, of which one may be -1: what is left."""
    if len(node.inputs) != 3 or not node.outputs:
        raise NetworkError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    source, sizes = node.input(0), node.integers(1)
    axis = dimension(_single(node, 2), source)
    if -1 in sizes:
        rest = source.shape[axis] - sum(size for size in sizes if size != -1)
        sizes = [rest if size == -1 else size for size in sizes]
    if len(sizes) != len(node.outputs) or min(sizes) < 0 or sum(sizes) != source.shape[axis]:
        raise NetworkError(f"{source.shape[axis]} elements do not divide into {sizes}")
    return _parts(node, source, axis, sizes)


def _parts(node: OperatorNode, source: NetworkTensor, axis: int, sizes: Sequence[int]) -> Kernel:
    whole, start = source.array, 0
    parts = []
    for number, size in enumerate(sizes):
        output = node.output(number)
        same_type(source, output)
        view = whole[(slice(None),) * axis + (slice(start, start + size),)]
        if view.shape != output.shape:
            raise NetworkError(
                f"{output} has shape {list(output.shape)}, part {number} has {list(view.shape)}"
            )
        parts.append((output.array, view))
        start += size
    return copies(*parts)


def _single(node: OperatorNode, number: int) -> int:
    values = node.integers(number)
    if len(values) != 1:
        raise NetworkError(f"input {number} has {len(values)} values, must have one")
    return values[0]


def gather(node: OperatorNode) -> Kernel:
    """Prepare GATHER along a dimension, with the first `batch_dims` dimensions in common.

    An index that is not in the dimension is a KernelError: at load where indices are constants, in a run
    otherwise.
    """
    node.expect(2)
    source, indices, output = node.input(0), node.input(1, TensorType.INT32, TensorType.INT64), node.output()
    same_type(source, output)
    axis = dimension(node.options.integer("axis"), source)
    batch = node.options.integer("batch_dims")
    batch += len(indices.shape) if batch < 0 else 0
    if not 0 <= batch <= min(axis, len(indices.shape)) or indices.shape[:batch] != source.shape[:batch]:
        raise NetworkError(
            f"batch_dims is {node.options.integer('batch_dims')} for shapes {list(source.shape)} and "
            f"{list(indices.shape)} and axis {axis}"
        )
    outer, extent, inner = source.shape[batch:axis], source.shape[axis], source.shape[axis + 1 :]
    expect_shape(output, (*source.shape[:axis], *indices.shape[batch:], *inner))
    # One batch, and between it and the indexed dimension whatever there is.
    batches = int(np.prod(source.shape[:batch], dtype=np.int64))
    between = int(np.prod(outer, dtype=np.int64))
    read = source.array.reshape(batches, between, extent, -1)
    places = indices.array.reshape(batches, -1)
    write = output.array.reshape(batches, between, places.shape[1], -1)
    rows = np.arange(batches)[:, None]

    def check() -> None:
        if places.min() < 0 or places.max() >= extent:
            raise KernelError(f"GATHER has indices from {places.min()} to {places.max()}, there are {extent}")

    if indices.tensor.is_constant:
        check()

    def kernel() -> None:
        check()
        write[...] = read[rows, :, places].swapaxes(1, 2)

    return kernel
