"""Convolutions that a backend computes in other terms: groups of channels, and transposed ones.

A convolution of groups is one for each group. A transposed one is a plain one over the input with its pixels
set apart, where the taps come in the opposite order: what lies between the pixels is a real of 0. Both read
buffers of their own beside the arena. Sources: `integer_ops/conv.h`, `integer_ops/transpose_conv.h`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from aisrv.addons.kernels.backend import GroupingBackend, Kernel, Kernels
from aisrv.addons.kernels.checks import check_conv2d
from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.tensors import allocate
from aisrv.addons.kernels.params import (
    INT8,
    Bias,
    Buffer,
    Conv2dParams,
    ElementType,
    PerChannelQuantParam,
    Shape4,
)
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding

LARGEST_INPUT: Final = 64 * 1024 * 1024
"""Bytes of the input of a transposed convolution with its pixels set apart."""


def grouped_conv2d(params: Conv2dParams, kernels: Kernels, elements: ElementType = INT8) -> Kernel:
    """Prepare CONV_2D of an input with a multiple of the weights' channels: a group of outputs for each.

    `kernels` are those of the element type.
    """
    outputs, rows, columns, channels = params.weights_shape
    batch, height, width, depth = params.input_shape
    groups = depth // channels if channels else 0
    if not groups or depth % channels or outputs % groups:
        raise InvalidShape(
            f"weights are for {channels} input channels of {outputs} outputs, the input has {depth}"
        )
    per_channel = params.weights_per_channel_quant
    for name, count in (
        ("scales", outputs if per_channel is None else len(per_channel.scales)),
        ("biases", outputs if params.bias is None else len(params.bias)),
    ):
        if count != outputs:
            raise InvalidShape(f"there are {count} {name} for {outputs} outputs")
    filters = outputs // groups
    output_shape = (*params.output_shape[:3], filters)
    whole = np.asarray(params.input).reshape(params.input_shape)
    target = np.asarray(params.output).reshape(params.output_shape)
    part = _elements(batch * height * width * channels, elements)
    result = _elements(math.prod(output_shape), elements)
    parts = []
    taps = rows * columns * channels
    for group in range(groups):
        first, last = group * filters, (group + 1) * filters
        one = replace(
            params,
            input=part,
            input_shape=(batch, height, width, channels),
            weights=_aligned(params.weights[first * taps : last * taps]),
            weights_shape=(filters, rows, columns, channels),
            weights_per_channel_quant=None if per_channel is None else _part(per_channel, first, last),
            bias=_part_of_bias(params.bias, first, last),
            output=result,
            output_shape=output_shape,
        )
        check_conv2d(one, elements)
        parts.append(one)
    if isinstance(kernels, GroupingBackend):
        return kernels.grouped_conv2d(params)
    steps = [
        (whole[..., group * channels : (group + 1) * channels], kernels.conv2d(one))
        for group, one in enumerate(parts)
    ]
    read = np.asarray(part).reshape(batch, height, width, channels)
    written = np.asarray(result).reshape(output_shape)

    def kernel() -> None:
        for group, (source, convolve) in enumerate(steps):
            read[...] = source
            convolve()
            target[..., group * filters : (group + 1) * filters] = written

    return kernel


def _aligned(part: Buffer) -> Buffer:
    """Copy constants to where a backend may want them."""
    copy = allocate(part.nbytes)
    copy[:] = part.cast("B").cast("b")
    return copy.toreadonly()


def _elements(count: int, elements: ElementType) -> Buffer:
    """Memory of so many activations."""
    return allocate(count) if elements is INT8 else allocate(2 * count).cast("B").cast("h")


def _part_of_bias(bias: Bias | None, first: int, last: int) -> Bias | None:
    if bias is None:
        return None
    part = _aligned(bias[first:last]).cast("B")
    return part.cast("i") if bias.format == "i" else part.cast("q")


def _part(quant: PerChannelQuantParam, first: int, last: int) -> PerChannelQuantParam:
    return replace(quant, scales=quant.scales[first:last], zero_points=quant.zero_points[first:last])


def transposed_conv2d(
    params: Conv2dParams,
    kernels: Kernels,
    elements: ElementType,
    scratch_size: Callable[[Shape4, Shape4, Shape4], int],
) -> Kernel:
    """Prepare TRANSPOSE_CONV; `params` are those of the file, where strides are those of the output.

    `scratch_size` is the backend's `conv2d_scratch_size`.
    """
    _, rows, columns, _ = params.weights_shape
    batch, height, width, channels = params.input_shape
    _, tall, wide, _ = params.output_shape
    down = window(tall, rows, params.stride_h, 1, params.padding)
    across = window(wide, columns, params.stride_w, 1, params.padding)
    if (down.outputs, across.outputs) != (height, width):
        raise InvalidShape(
            f"{tall} by {wide} pixels follow from {down.outputs} by {across.outputs}, the input has "
            f"{height} by {width}"
        )
    apart_shape = (batch, tall + rows - 1, wide + columns - 1, channels)
    nbytes = math.prod(apart_shape) * params.input.itemsize
    if nbytes > LARGEST_INPUT:
        raise NetworkError(f"the input set apart takes {nbytes:,} bytes, at most {LARGEST_INPUT:,}")
    apart = _elements(math.prod(apart_shape), elements)
    pixels = np.asarray(apart).reshape(apart_shape)
    pixels.fill(params.input_quant.zero_point)
    top, left = rows - 1 - down.before, columns - 1 - across.before
    places = pixels[:, top :: params.stride_h, left :: params.stride_w][:, :height, :width]
    weights = np.frombuffer(params.weights, np.int8).reshape(params.weights_shape)[:, ::-1, ::-1]
    plain = replace(
        params,
        input=apart,
        input_shape=apart_shape,
        weights=_aligned(memoryview(np.ascontiguousarray(weights).reshape(-1).data)),
        stride_w=1,
        stride_h=1,
        padding=Padding.VALID,
        scratch=allocate(scratch_size(apart_shape, params.weights_shape, params.output_shape)),
    )
    check_conv2d(plain, elements)
    convolve = kernels.conv2d(plain)
    read = np.asarray(params.input).reshape(params.input_shape)

    def kernel() -> None:
        places[...] = read
        convolve()

    return kernel
