"""AVERAGE_POOL_2D and MAX_POOL_2D in NumPy: first along the height, then along the width.

Source: "The INT8 kernel engine", section Arithmetic.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from aisrv.addons.kernels import arithmetic
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.convolution import padded_input
from aisrv.addons.kernels.backends.numpy.words import Numbers
from aisrv.addons.kernels.params import PoolParams
from aisrv.addons.kernels.windows import Spans, TapSpan, pool_spans

Array: TypeAlias = npt.NDArray[Any]


def max_pool(params: PoolParams, numbers: Numbers) -> Kernel:
    """Prepare MAX_POOL_2D; nothing is smaller than what borders are filled with."""
    spans = pool_spans(params)
    source = numbers.array(params.input).reshape(params.input_shape)
    image, load = padded_input(source, spans, numbers.elements.low, source.dtype)
    output = numbers.array(params.output).reshape(params.output_shape)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, numbers.elements)

    def invoke() -> None:
        load()
        output[...] = _pooled(image, spans, np.maximum).clip(*bounds)

    return invoke


def avg_pool(params: PoolParams, numbers: Numbers) -> Kernel:
    """Prepare AVERAGE_POOL_2D: the mean of the taps inside of the input, half away from zero."""
    spans = pool_spans(params)
    source = numbers.array(params.input).reshape(params.input_shape)
    image, load = padded_input(source, spans, 0, np.int64)
    inside, fill = padded_input(np.ones((1, *source.shape[1:3], 1)), spans, 0, np.int64)
    fill()
    counts = _pooled(inside, spans, np.add)
    half = counts // 2
    output = numbers.array(params.output).reshape(params.output_shape)
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, numbers.elements)

    def invoke() -> None:
        load()
        total = _pooled(image, spans, np.add)
        means = np.where(total > 0, (total + half) // counts, -((half - total) // counts))
        output[...] = means.clip(*bounds)

    return invoke


def _pooled(image: Array, spans: Spans, combine: np.ufunc) -> Array:
    """Combine what each window of a padded copy holds."""
    down, across = spans
    lines = combine.reduce(_taps(image[:, down.skip :], down, 1), axis=1)
    return np.asarray(combine.reduce(_taps(lines[:, :, across.skip :], across, 2), axis=2))


def _taps(values: Array, span: TapSpan, axis: int) -> Array:
    """Windows along an axis: their taps come before them, as an axis of their own."""
    shape, strides = list(values.shape), list(values.strides)
    shape[axis : axis + 1] = span.taps, span.outputs
    strides[axis : axis + 1] = strides[axis], span.stride * strides[axis]
    return as_strided(values, shape, strides, writeable=False)
