"""The geometry of windows over pictures: how many there are, and which of their taps meet the input.

Lengths count elements along one dimension of a picture, its height or its width. Source: "The INT8 kernel
engine", section Arithmetic, SAME and VALID.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.params import Conv2dParams, DepthwiseConv2dParams, PoolParams
from aisrv.model import Padding

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_Convolution: TypeAlias = Conv2dParams | DepthwiseConv2dParams


class Window(NamedTuple):
    """The windows along one dimension: their number, their extent, and the padding before and after.

    Output `i` has its tap `j` at input `i * stride - before + j * dilation`.
    """

    outputs: int
    extent: int
    before: int
    after: int


def window(inputs: int, taps: int, stride: int, dilation: int, padding: Padding) -> Window:
    """Lay windows along one dimension of `inputs` elements; InvalidShape where not even one fits.

    A window has `taps` elements that are `dilation` apart; windows begin `stride` elements apart.
    """
    extent = (taps - 1) * dilation + 1
    if padding is Padding.SAME:
        outputs = -(-inputs // stride)
        total = max(0, (outputs - 1) * stride + extent - inputs)
        return Window(outputs, extent, total // 2, total - total // 2)
    outputs = (inputs + stride - extent) // stride
    if outputs < 1:
        raise InvalidShape(f"a window of {extent} does not fit into {inputs} without padding")
    return Window(outputs, extent, 0, 0)


class TapSpan(NamedTuple):
    """The taps of windows that meet the input, along one dimension of a padded copy.

    Output `i` has tap `first + j`, j < `taps`, at `skip + i * stride + j * dilation` of the copy, which has
    `before` values before the input's and `size` in all. A dilation or a filter may be as large as a file
    says; `size` stays below three times the input's.
    """

    outputs: int
    first: int
    taps: int
    stride: int
    dilation: int
    skip: int
    before: int
    size: int


Spans: TypeAlias = tuple[TapSpan, TapSpan]
"""Along the height and along the width."""


def span(window: Window, taps: int, stride: int, dilation: int, inputs: int) -> TapSpan:
    """Find the taps that meet the input; none, where all of them lie beyond both ends."""
    reach = (window.outputs - 1) * stride
    first = max(0, -((reach - window.before) // dilation))
    last = min(taps - 1, (inputs - 1 + window.before) // dilation)
    count = max(0, last - first + 1)
    if count == 0:
        return TapSpan(window.outputs, 0, 0, stride, 1, 0, 0, inputs)
    start = first * dilation - window.before
    before, skip = max(0, -start), max(0, start)
    end = skip + reach + (count - 1) * dilation + 1
    return TapSpan(window.outputs, first, count, stride, dilation, skip, before, max(before + inputs, end))


def conv_windows(params: _Convolution) -> tuple[Window, Window]:
    """The windows of a convolution along the height and along the width."""
    (_, height, width, _), (_, rows, columns, _) = params.input_shape, params.weights_shape
    return (
        window(height, rows, params.stride_h, params.dilation_h_factor, params.padding),
        window(width, columns, params.stride_w, params.dilation_w_factor, params.padding),
    )


def pool_windows(params: PoolParams) -> tuple[Window, Window]:
    """The windows of a pool along the height and along the width."""
    _, height, width, _ = params.input_shape
    return (
        window(height, params.filter_h, params.stride_h, 1, params.padding),
        window(width, params.filter_w, params.stride_w, 1, params.padding),
    )


def conv_spans(params: _Convolution) -> Spans:
    """The taps of a convolution that meet the input."""
    (_, height, width, _), (_, rows, columns, _) = params.input_shape, params.weights_shape
    down, across = conv_windows(params)
    return (
        span(down, rows, params.stride_h, params.dilation_h_factor, height),
        span(across, columns, params.stride_w, params.dilation_w_factor, width),
    )


def pool_spans(params: PoolParams) -> Spans:
    """The taps of a pool that meet the input."""
    _, height, width, _ = params.input_shape
    down, across = pool_windows(params)
    return (
        span(down, params.filter_h, params.stride_h, 1, height),
        span(across, params.filter_w, params.stride_w, 1, width),
    )


def overlapping_taps(weights: "npt.NDArray[Any]", spans: Spans) -> "npt.NDArray[np.int64]":
    """The weights [rows, columns, ...] of the taps that meet the input."""
    down, across = spans
    rows, columns = slice(down.first, down.first + down.taps), slice(across.first, across.first + across.taps)
    return weights[rows, columns].astype("int64")
