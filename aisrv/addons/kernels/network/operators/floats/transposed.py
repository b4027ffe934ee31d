"""TRANSPOSE_CONV of float32 by a backend's CONV_2D.

Outputs whose places leave the same rest by the strides meet the same taps of the filter. They are a plain
convolution of the input, with the taps that they meet in the opposite order. So each output has the sum of
TensorFlow Lite's reference kernel, which takes inputs row by row (`reference/transpose_conv.h`): zeros of a
border change no sum.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.operators.floats.tensors import Floats
from aisrv.addons.kernels.params import Conv2dParams
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding


class _Phase(NamedTuple):
    """Outputs along one dimension that meet the same taps."""

    outputs: slice
    taps: slice
    """In the opposite order."""
    extent: int
    """The number of these taps."""
    windows: slice
    """Of the convolution of the whole input with its border."""


class _Along(NamedTuple):
    """All phases along one dimension, and the border of zeros that they need."""

    phases: list[_Phase]
    before: int
    size: int
    """Of the input with its border."""


def transposed_conv2d(params: Conv2dParams, conv2d: Callable[[Conv2dParams], Kernel]) -> Kernel:
    """Prepare TRANSPOSE_CONV; `params` are those of the file, where strides are those of the output.

    NotImplementedError for what `conv2d` does not take, and for weights that make something of zeros.
    """
    filters, rows, columns, channels = params.weights_shape
    batch, height, width, _ = params.input_shape
    _, tall, wide, _ = params.output_shape
    weights = np.frombuffer(params.weights, np.float32).reshape(params.weights_shape)
    if not np.isfinite(weights).all():
        raise NotImplementedError("weights that make something of zeros")
    down = _along(height, tall, rows, params.stride_h, params.padding)
    across = _along(width, wide, columns, params.stride_w, params.padding)
    bordered = np.zeros((batch, down.size, across.size, channels), np.float32)
    inner = bordered[:, down.before : down.before + height, across.before : across.before + width]
    read = np.frombuffer(params.input, np.float32).reshape(params.input_shape)
    write = np.frombuffer(params.output, np.float32).reshape(params.output_shape)
    steps = []
    for row in down.phases:
        for column in across.phases:
            shape = (batch, down.size - row.extent + 1, across.size - column.extent + 1, filters)
            found = np.zeros(shape, np.float32)
            part = weights[:, row.taps, column.taps]
            convolve = conv2d(
                replace(
                    params,
                    input=_elements(bordered),
                    input_shape=(batch, down.size, across.size, channels),
                    weights=_elements(np.ascontiguousarray(part)).toreadonly(),
                    weights_shape=(filters, row.extent, column.extent, channels),
                    output=_elements(found),
                    output_shape=shape,
                    stride_h=1,
                    stride_w=1,
                    padding=Padding.VALID,
                )
            )
            place = write[:, row.outputs, column.outputs]
            steps.append((convolve, place, found[:, row.windows, column.windows]))

    def kernel() -> None:
        inner[...] = read
        for convolve, place, found in steps:
            convolve()
            place[...] = found

    return kernel


def _along(inputs: int, outputs: int, taps: int, stride: int, padding: Padding) -> _Along:
    """Find the phases along one dimension: output `o` meets tap `t` at input `(o + before - t) / stride`."""
    if taps < stride:
        raise NotImplementedError("outputs that no tap meets")
    before = window(outputs, taps, stride, 1, padding).before
    most = -(-taps // stride)
    phases = []
    for first in range(min(stride, outputs)):
        last_input, tap = divmod(first + before, stride)
        extent = -(-(taps - tap) // stride)
        windows = -(-(outputs - first) // stride)
        begin = last_input + most - extent
        # From the last tap of the phase to its first.
        backwards = slice(tap + (extent - 1) * stride, tap - 1 if tap else None, -stride)
        phases.append(_Phase(slice(first, None, stride), backwards, extent, slice(begin, begin + windows)))
    furthest = (outputs - 1 + before) // stride
    return _Along(phases, most - 1, most - 1 + max(inputs, furthest + 1))


def _elements(array: Floats) -> memoryview:
    """An array as a kernel's buffer."""
    return memoryview(array.reshape(-1).data)
