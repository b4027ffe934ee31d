"""Pools of float32. Source: `pooling.h` of TensorFlow Lite."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.operator_node import OperatorNode, bound_window, expect_shape, shape4
from aisrv.addons.kernels.network.operators.floats.tensors import (
    Floats,
    finish,
    float_input,
    float_output,
    quiet,
)
from aisrv.addons.kernels.windows import window


def average_pool(node: OperatorNode) -> Kernel:
    """Prepare AVERAGE_POOL_2D: sums by the number of values inside of the picture."""
    inside = _windows(node, np.zeros((1, *shape4(float_input(node))[1:3], 1), np.float32), 0.0)
    inside.filled[...] = 1
    counts = inside.taps.sum(axis=(-2, -1))
    return _pool(node, 0.0, lambda taps: taps.sum(axis=(-2, -1)) / counts)


def max_pool(node: OperatorNode) -> Kernel:
    """Prepare MAX_POOL_2D."""
    return _pool(node, -np.inf, lambda taps: np.fmax.reduce(taps, axis=(-2, -1)))


class _Windows(NamedTuple):
    """A picture inside of its borders, and the values that each output's window meets."""

    filled: Floats
    taps: Floats


def _windows(node: OperatorNode, picture: Floats, border: float) -> _Windows:
    options = node.options
    batch, height, width, channels = picture.shape
    taps, strides = (options.kernel_h, options.kernel_w), (options.stride_h, options.stride_w)
    bound_window((height, width), taps, (1, 1))
    down = window(height, taps[0], strides[0], 1, options.padding)
    across = window(width, taps[1], strides[1], 1, options.padding)
    padded = np.full(
        (batch, down.before + height + down.after, across.before + width + across.after, channels),
        border,
        np.float32,
    )
    found = sliding_window_view(padded, taps, (1, 2))  # type: ignore[call-overload]
    found = found[:, :: strides[0], :: strides[1]]
    inner = padded[:, down.before : down.before + height, across.before : across.before + width]
    return _Windows(inner, found[:, : down.outputs, : across.outputs])


def _pool(node: OperatorNode, border: float, function: Callable[[Floats], Any]) -> Kernel:
    node.expect(1)
    source, output, write = float_input(node), float_output(node), finish(node)
    shape4(source)
    windows = _windows(node, source.array, border)
    expect_shape(output, windows.taps.shape[:4])
    read = source.array

    def kernel() -> None:
        windows.filled[...] = read
        write(function(windows.taps))

    return quiet(kernel)
