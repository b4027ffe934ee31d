"""AVERAGE_POOL_2D and MAX_POOL_2D in NumPy: first along the height, then along the width.

Source: "The INT8 kernel engine", section Arithmetic.
"""

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic
from aisrv.kernels.arithmetic import INT8_MAX, INT8_MIN
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.numpy.conv import float_type
from aisrv.kernels.backends.numpy.requantize import Workspace, padded_elements
from aisrv.kernels.backends.numpy.steps import Array, mean_steps, rescaling
from aisrv.kernels.backends.numpy.windows import padded_input
from aisrv.kernels.params import PoolParams
from aisrv.kernels.windows import Window, pool_spans, pool_windows


def max_pool(params: PoolParams, workspace: Workspace) -> Kernel:
    """Prepare MAX_POOL_2D; nothing is smaller than what borders are filled with."""
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    output = np.frombuffer(params.output, np.int8).reshape(params.output_shape)
    pool = _separable(params, np.int8, INT8_MIN, np.maximum, output, workspace)
    low, high = np.array(bounds.low, np.int8), np.array(bounds.high, np.int8)
    if bounds == (INT8_MIN, INT8_MAX):
        return pool

    def invoke() -> None:
        pool()
        np.maximum(output, low, out=output)
        np.minimum(output, high, out=output)

    return invoke


def avg_pool(params: PoolParams, workspace: Workspace) -> Kernel:
    """Prepare AVERAGE_POOL_2D; a window at an edge is divided by the taps that it has inside."""
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    output = np.frombuffer(params.output, np.int8)
    _, height, width, channels = params.input_shape
    down, across = pool_windows(params)
    counts = np.outer(
        _inside(down, params.filter_h, params.stride_h, height),
        _inside(across, params.filter_w, params.stride_w, width),
    ).reshape(-1)
    counts = counts[:1] if (counts == counts[0]).all() else np.repeat(counts, channels)
    dtype = float_type(128 * int(counts.max()))
    period = len(counts)
    different, which = np.unique(counts, return_inverse=True)
    how = rescaling(mean_steps(different, bounds), dtype).of(which)
    flat = workspace.array("accumulators", padded_elements(period, len(output) // period), dtype)
    finish = workspace.requantize(flat, output, how)
    if (params.filter_h, params.filter_w) == (height, width) and params.output_shape[1:3] == (1, 1):
        total = _everything(params, dtype, flat[: len(output)], workspace)
    else:
        sums = flat[: len(output)].reshape(params.output_shape)
        total = _separable(params, dtype, 0, np.add, sums, workspace)

    def invoke() -> None:
        total()
        finish()

    return invoke


def _inside(window: Window, taps: int, stride: int, inputs: int) -> npt.NDArray[np.int64]:
    first = np.arange(window.outputs, dtype=np.int64) * stride - window.before
    inside: npt.NDArray[np.int64] = np.minimum(first + taps, inputs) - np.maximum(first, 0)
    return inside


def _everything(params: PoolParams, dtype: npt.DTypeLike, sums: Array, workspace: Workspace) -> Kernel:
    """Prepare a pool whose one window is the whole picture: a product with ones."""
    batches, height, width, channels = params.input_shape
    source = np.frombuffer(params.input, np.int8)
    values = workspace.array("columns", len(source), dtype)
    pictures = values.reshape(batches, height * width, channels)
    ones, result, matmul = np.ones((1, height * width), dtype), sums.reshape(batches, 1, channels), np.matmul

    def invoke() -> None:
        values[...] = source
        matmul(ones, pictures, result)

    return invoke


def _separable(
    params: PoolParams,
    dtype: npt.DTypeLike,
    border: int,
    combine: np.ufunc,
    result: Array,
    workspace: Workspace,
) -> Kernel:
    """Combine what each window holds: rows first, then columns."""
    batches, _, _, channels = params.input_shape
    down, across = pool_spans(params)
    source = np.frombuffer(params.input, np.int8).reshape(params.input_shape)
    image, load = padded_input(source, (down, across), border, dtype)
    if image.dtype == np.int8 and image.shape == source.shape:
        image, load = source, _nothing
    image = image[:, down.skip :, across.skip :]
    size = batches * down.outputs * image.shape[2] * channels
    lines = workspace.array("lines", size, dtype).reshape(batches, down.outputs, image.shape[2], channels)
    rows = [image[:, tap :: params.stride_h][:, : down.outputs] for tap in range(down.taps)]
    columns = [lines[:, :, tap :: params.stride_w][:, :, : across.outputs] for tap in range(across.taps)]

    def invoke() -> None:
        load()
        _combine(combine, rows, lines)
        _combine(combine, columns, result)

    return invoke


def _nothing() -> None:
    """Load nothing: the kernel reads the input itself."""


def _combine(combine: np.ufunc, parts: list[Array], result: Array) -> None:
    if len(parts) == 1:
        result[...] = parts[0]
        return
    combine(parts[0], parts[1], out=result)
    for part in parts[2:]:
        combine(result, part, out=result)
