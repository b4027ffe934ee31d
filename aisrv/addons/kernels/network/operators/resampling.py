"""Operators that give a picture another size. Sources: `resize_nearest_neighbor.h`, `resize_bilinear.h`."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, expect_shape, same_type, shape4
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType

_FRACTION_BITS: Final = 10
_ONE: Final = 1 << _FRACTION_BITS


def resize_nearest_neighbor(node: OperatorNode) -> Kernel:
    """Prepare RESIZE_NEAREST_NEIGHBOR. Source: `resize_nearest_neighbor.h`, in float32."""
    node.expect(2)
    source, output, size = node.input(0), node.output(), node.integers(1)
    same_type(source, output)
    batch, height, width, channels = shape4(source)
    if len(size) != 2:
        raise NetworkError(f"the new size is {size}, expected height and width")
    expect_shape(output, (batch, *size, channels))
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


class _Taps(NamedTuple):
    """For each output along one dimension: two inputs, and what each counts in steps of 1/1024."""

    lower: npt.NDArray[np.intp]
    upper: npt.NDArray[np.intp]
    lower_weight: npt.NDArray[np.int32]
    upper_weight: npt.NDArray[np.int32]


def resize_bilinear(node: OperatorNode) -> Kernel:
    """Prepare RESIZE_BILINEAR of int8: weights of 10 bits in each dimension, halves away from zero."""
    node.expect(2)
    source, output = node.input(0, TensorType.INT8), node.output(0, TensorType.INT8)
    size, align, half = bilinear_sizes(node, source, output)
    batch, height, width, channels = shape4(source)
    rows = _taps(height, size[0], align_corners=align, half_pixel_centers=half)
    columns = _taps(width, size[1], align_corners=align, half_pixel_centers=half)
    top_weight, bottom_weight = (weight[:, None, None] for weight in rows[2:])
    left_weight, right_weight = (weight[:, None] for weight in columns[2:])
    read, write = source.array, output.array
    # Rows as wide as the output's, and the output; each with room for what is added to it.
    lines, more_lines = np.empty((2, batch, height, size[1], channels), np.int32)
    values, more = np.empty((2, *output.shape), np.int32)

    def kernel() -> None:
        wide = read.astype(np.int32)
        np.take(wide, columns.lower, 2, lines, "clip")
        np.take(wide, columns.upper, 2, more_lines, "clip")
        np.multiply(lines, left_weight, lines)
        np.multiply(more_lines, right_weight, more_lines)
        np.add(lines, more_lines, lines)
        np.take(lines, rows.lower, 1, values, "clip")
        np.take(lines, rows.upper, 1, more, "clip")
        np.multiply(values, top_weight, values)
        np.multiply(more, bottom_weight, more)
        np.add(values, more, values)
        # Halves go away from zero.
        np.right_shift(values, 31, more)
        np.add(values, more, values)
        np.add(values, _ONE * _ONE >> 1, values)
        np.right_shift(values, 2 * _FRACTION_BITS, values)
        write[...] = values

    return kernel


def bilinear_sizes(
    node: OperatorNode, source: NetworkTensor, output: NetworkTensor
) -> tuple[tuple[int, int], bool, bool]:
    """Return the new height and width, whether corners are aligned, and whether centers are half pixels."""
    size = node.integers(1)
    batch, _, _, channels = shape4(source)
    if len(size) != 2:
        raise NetworkError(f"the new size is {size}, expected height and width")
    expect_shape(output, (batch, *size, channels))
    align = bool(node.options.integer("align_corners"))
    half = bool(node.options.integer("half_pixel_centers"))
    if align and half:
        raise NetworkError("has aligned corners and half pixel centers: only one of them can be")
    return (size[0], size[1]), align, half


def _taps(inputs: int, outputs: int, *, align_corners: bool, half_pixel_centers: bool) -> _Taps:
    steps, intervals = inputs, outputs
    if align_corners and outputs > 1:
        steps, intervals = inputs - 1, outputs - 1
    scale = (_ONE * steps + intervals // 2) // intervals
    places = np.arange(outputs, dtype=np.int64) * scale
    if half_pixel_centers:
        places += scale // 2 - _ONE // 2
    # The first place may be below 0; C's division takes it to 0, as the bound does.
    lower = np.clip(places >> _FRACTION_BITS, 0, inputs - 1)
    upper = np.minimum((places + _ONE - 1) >> _FRACTION_BITS, inputs - 1)
    weight = (places - (lower << _FRACTION_BITS)).astype(np.int32)
    return _Taps(lower.astype(np.intp), upper.astype(np.intp), _ONE - weight, weight)
