"""Convolutions of float32: a product of matrices for each tap of the window.

Sources: `conv.h`, `depthwiseconv_float.h`, `transpose_conv.h` of TensorFlow Lite.
"""

from typing import NamedTuple

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.network.operator_node import OperatorNode, bound_window, expect_shape, shape4
from aisrv.addons.kernels.network.operators.floats.products import bias
from aisrv.addons.kernels.network.operators.floats.tensors import (
    Floats,
    finish,
    float_input,
    float_output,
    laid_out,
    quiet,
)
from aisrv.addons.kernels.windows import Window, window


class _Taps(NamedTuple):
    """The input with its padding, and for each tap the pixels that it meets, row by row."""

    padded: Floats
    inner: Floats
    views: list[Floats]


def conv2d(node: OperatorNode) -> Kernel:
    """Prepare CONV_2D, of groups of channels, too."""
    node.expect(3, optional=1)
    source, weights, output = float_input(node), float_input(node, 1), float_output(node)
    filters, _, _, channels = shape4(weights)
    depth = shape4(source)[3]
    groups = depth // channels
    if not groups or depth % channels or filters % groups:
        raise InvalidShape(
            f"weights are for {channels} input channels of {filters} outputs, the input has {depth}"
        )
    taps, shape = _windows(node, filters)
    add, write = bias(node, filters), finish(node)
    # [KH, KW, Cin, Cout]
    matrices = laid_out(weights, 1, 2, 3, 0).reshape(-1, channels, filters)
    read, each = source.array, filters // groups
    parts = [
        (slice(group * channels, (group + 1) * channels), slice(group * each, (group + 1) * each))
        for group in range(groups)
    ]

    def kernel() -> None:
        taps.inner[...] = read
        sums = np.zeros(shape, np.float32)
        for view, matrix in zip(taps.views, matrices, strict=True):
            for inputs, outputs in parts:
                sums[..., outputs] += view[..., inputs] @ matrix[:, outputs]
        write(sums + add)

    expect_shape(output, shape)
    return quiet(kernel)


def depthwise_conv2d(node: OperatorNode) -> Kernel:
    """Prepare DEPTHWISE_CONV_2D; the depth multiplier follows from the shapes."""
    node.expect(3, optional=1)
    source, weights, output = float_input(node), float_input(node, 1), float_output(node)
    one, _, _, filters = shape4(weights)
    channels = shape4(source)[3]
    if one != 1 or filters % channels:
        raise InvalidShape(f"weights of shape {list(weights.shape)} do not fit {channels} channels")
    taps, shape = _windows(node, filters)
    expect_shape(output, shape)
    add, write = bias(node, filters), finish(node)
    deep = (*shape[:3], channels, filters // channels)
    factors, read = weights.array.reshape(-1, *deep[3:]), source.array

    def kernel() -> None:
        taps.inner[...] = read
        sums = np.zeros(deep, np.float32)
        for view, factor in zip(taps.views, factors, strict=True):
            sums += view[..., None] * factor
        write(sums.reshape(shape) + add)

    return quiet(kernel)


def transpose_conv(node: OperatorNode) -> Kernel:
    """Prepare TRANSPOSE_CONV: a shape that the output has anyway, weights, input, and bias or none."""
    node.expect(4, optional=1)
    weights, source, output, options = (
        float_input(node, 1),
        float_input(node, 2),
        float_output(node),
        node.options,
    )
    filters, rows, columns, depth = shape4(weights)
    batch, height, width, channels = shape4(source)
    _, tall, wide, _ = shape4(output)
    bound_window((height, width), (rows, columns), (1, 1))
    down = window(tall, rows, options.stride_h, 1, options.padding)
    across = window(wide, columns, options.stride_w, 1, options.padding)
    if (down.outputs, across.outputs, depth) != (height, width, channels):
        raise InvalidShape(
            f"{tall} by {wide} pixels follow from {down.outputs} by {across.outputs} of {depth} channels, "
            f"the input has {height} by {width} of {channels}"
        )
    expect_shape(output, (batch, tall, wide, filters))
    add, write = bias(node, filters, 3), finish(node)
    matrices, read = laid_out(weights, 1, 2, 3, 0).reshape(-1, channels, filters), source.array
    whole = np.zeros(
        (
            batch,
            _span(down, tall, height, rows, options.stride_h),
            _span(across, wide, width, columns, options.stride_w),
            filters,
        ),
        np.float32,
    )
    places = [
        whole[:, row :: options.stride_h, column :: options.stride_w][:, :height, :width]
        for row in range(rows)
        for column in range(columns)
    ]
    kept = whole[:, down.before : down.before + tall, across.before : across.before + wide]

    def kernel() -> None:
        whole.fill(0)
        for place, matrix in zip(places, matrices, strict=True):
            place += read @ matrix
        write(kept + add)

    return quiet(kernel)


def _span(along: Window, size: int, inputs: int, taps: int, stride: int) -> int:
    """Elements that a transposed window writes or keeps along one dimension."""
    return max((inputs - 1) * stride + taps, along.before + size)


def _windows(node: OperatorNode, filters: int) -> tuple[_Taps, tuple[int, int, int, int]]:
    """The taps of a convolution, and the shape of its output."""
    source, weights, options = float_input(node), float_input(node, 1), node.options
    batch, height, width, depth = shape4(source)
    _, rows, columns, _ = shape4(weights)
    strides, dilations = (options.stride_h, options.stride_w), (options.dilation_h, options.dilation_w)
    bound_window((height, width), (rows, columns), dilations)
    along = [
        window(size, taps, stride, dilation, options.padding)
        for size, taps, stride, dilation in zip(
            (height, width), (rows, columns), strides, dilations, strict=True
        )
    ]
    down, across = along
    padded = np.zeros(
        (batch, down.before + height + down.after, across.before + width + across.after, depth), np.float32
    )
    views = [
        padded[:, row * dilations[0] :: strides[0], column * dilations[1] :: strides[1]][
            :, : down.outputs, : across.outputs
        ]
        for row in range(rows)
        for column in range(columns)
    ]
    inner = padded[:, down.before : down.before + height, across.before : across.before + width]
    return _Taps(padded, inner, views), (batch, down.outputs, across.outputs, filters)
