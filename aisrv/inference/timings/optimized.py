"""Costs of XMOS's optimized kernels, for its own operators and for those that its converter replaces.

A plain operator costs what the converter makes of it: a convolution with padding becomes one without, after
operators that pad its input, and all are counted here. "Published run" is XMOS ai_tools,
examples/app_profiling/README.rst: a person detector of 47 nodes, the layers of MLPerf Tiny's visual wake
words, whose conversion has the same operator at each of the nodes.
"""

import math
from typing import Final

from aisrv.inference.timings.cost import Basis, Cost, CostRule
from aisrv.inference.timings.operator_tensors import Images, OperatorTensors
from aisrv.model import Padding
from aisrv.model.custom_options import CustomOptions

_CHANNEL_GROUP: Final = 16
"""Output channels that the vector unit computes at once."""
_VECTOR_BYTES: Final = 32
"""int8 products that it adds up at once (XMOS ai_tools, xcore-ai-coding)."""

_GROUP_TICKS: Final = 143.5
_VECTOR_TICKS: Final = 12.06
"""Of each group of channels of a pixel, and of each vector of products in it: all convolutions, node 41."""
_SINGLE_PIXEL_TICKS: Final = 350
"""More that node 43, a fully connected layer of 591 ticks, takes than a pixel of a convolution."""
_DEPTHWISE_TICKS: Final = 193
"""Of a group of channels of a pixel with a 3x3 window: two layers of 144 groups each took 55,553 ticks."""
_POOL_TICKS: Final = 2550 / 16
"""The same for a single pixel: node 42, which averages 3x3 pixels of 256 channels."""
_PAD_TICKS: Final = 100
"""A pad apart from its data. Assumed: slices and reshapes of a few bytes took 106 to 134 ticks."""
_PAD_ROW_TICKS: Final = 107.4
_PAD_BYTE_TICKS: Final = 0.094
"""Of each row of the input, and each byte of the output: node 1 took 13,945 ticks, 14 pads 54,115."""
_PAD_3_TO_4_TICKS: Final = 26_993 / (96 * 96)
"""Of a pixel that gets a fourth channel: node 0."""

_MOVE_TICKS: Final = 350
_MOVE_BYTE_TICKS: Final = 0.25
"""Of what has no figure: an operator, and each byte of activations that it reads and writes. A guess."""

_LOOKUP_TICKS: Final = 24_000 / 7_500
"""Of an element of a lookup: 0.24 ms for 7,500 elements on one thread, 0.05 ms on five."""

_CONVOLUTION: Final = "published convolutions"
_DEPTHWISE: Final = "published depthwise convolutions, 3x3"
_WINDOW: Final = "depthwise convolution of 3x3, by the size of the window"


def convolution(groups: int, products: int) -> float:
    """Ticks of a convolution of `products` products for each of `groups` groups of channels of a pixel."""
    return groups * (_GROUP_TICKS + _VECTOR_TICKS * math.ceil(products / _VECTOR_BYTES))


def depthwise(groups: int, taps: int, *, single_pixel: bool = False) -> float:
    """Ticks where each channel has a window of its own, of `taps` values. Other sizes than 9 are a guess."""
    return groups * (_POOL_TICKS if single_pixel else _DEPTHWISE_TICKS) * (0.4 + 0.6 * taps / 9)


def pad(rows: int, nbytes: int) -> float:
    """Ticks to copy `rows` rows into a padded image of `nbytes` bytes."""
    return _PAD_TICKS + _PAD_ROW_TICKS * rows + _PAD_BYTE_TICKS * nbytes


def moving_bytes(node: OperatorTensors) -> Cost:
    """Estimate the cost of an operator without a published figure."""
    ticks = _MOVE_TICKS + _MOVE_BYTE_TICKS * node.moved_bytes
    return Cost(ticks, Basis.ESTIMATE, "bytes moved")


def reshape(_node: OperatorTensors) -> Cost:
    """Return the cost of an operator that changes no data."""
    return Cost(130, Basis.FITTED, "published run, node 45")


def softmax(node: OperatorTensors) -> Cost | None:
    """Return the cost of a softmax: two classes took 1,668 ticks, the growth with more is a guess."""
    if node.output is None:
        return None
    elements = math.prod(node.output.shape)
    basis = Basis.FITTED if elements == 2 else Basis.ESTIMATE
    return Cost(1000 + 330 * elements, basis, "published run, node 46: two classes")


def _groups(channels: int) -> int:
    return math.ceil(channels / _CHANNEL_GROUP)


def _weights_shape(node: OperatorTensors) -> tuple[int, ...] | None:
    weights = node.input(1)
    return weights.shape if weights is not None and len(weights.shape) == 4 else None


def _padding_ticks(node: OperatorTensors, images: Images, kernel: tuple[int, int]) -> float:
    """Cost of the pads that the converter puts before a convolution."""
    batch, height, width, channels = images.data
    ticks = 0.0
    if channels == 3:
        ticks += _PAD_3_TO_4_TICKS * batch * height * width
        channels = 4
    options = node.operator.options
    if options.padding is Padding.SAME:
        _, out_height, out_width, _ = images.output
        reach_h = (kernel[0] - 1) * options.dilation_h + 1
        reach_w = (kernel[1] - 1) * options.dilation_w + 1
        padded_h = max(height, (out_height - 1) * options.stride_h + reach_h)
        padded_w = max(width, (out_width - 1) * options.stride_w + reach_w)
        if (padded_h, padded_w) != (height, width):
            ticks += pad(batch * height, batch * padded_h * padded_w * channels)
    return ticks


def _conv_2d(node: OperatorTensors) -> Cost | None:
    images, weights = Images.of(node), _weights_shape(node)
    if images is None or weights is None:
        return None
    _, kernel_h, kernel_w, channels = weights
    products = kernel_h * kernel_w * 4 * math.ceil(channels / 4)
    shared = convolution(images.pixels * _groups(images.output[3]), products)
    ticks = shared + _padding_ticks(node, images, (kernel_h, kernel_w))
    return Cost(ticks, Basis.FITTED, _CONVOLUTION, shared, images.size)


def _depthwise_conv_2d(node: OperatorTensors) -> Cost | None:
    images, weights = Images.of(node), _weights_shape(node)
    if images is None or weights is None:
        return None
    _, kernel_h, kernel_w, _ = weights
    cost = _windows(images, kernel_h * kernel_w)
    ticks = cost.ticks + _padding_ticks(node, images, (kernel_h, kernel_w))
    return Cost(ticks, cost.basis, cost.source, cost.shared, cost.image)


def _windows(images: Images, taps: int) -> Cost:
    single = images.pixels == 1
    shared = depthwise(images.pixels * _groups(images.output[3]), taps, single_pixel=single)
    if taps != 9:
        return Cost(shared, Basis.ESTIMATE, _WINDOW, shared, images.size)
    source = "published run, node 42" if single else _DEPTHWISE
    return Cost(shared, Basis.FITTED, source, shared, images.size)


def _xc_conv2d(node: OperatorTensors) -> Cost | None:
    """Cost of XMOS's convolution: its kernel has no shape of its own, the bytes of its weights tell.

    What the converter writes: for a window of each channel, the taps of all channels, rounded up to groups,
    and 16 bytes; else the products of each channel, and 32 bytes for each channel missing in the last group.
    """
    images, weights = Images.of(node, flat=True), node.input(1)
    if images is None or weights is None:
        return None
    channels = images.output[3]
    padded = _CHANNEL_GROUP * _groups(channels)
    if not padded:
        return None
    nbytes = weights.nbytes
    # Weights of a whole group for all channels take 512 bytes and more.
    is_distinct = padded > _CHANNEL_GROUP or nbytes < _CHANNEL_GROUP * _VECTOR_BYTES
    if images.data[3] == channels and is_distinct and nbytes > 16 and (nbytes - 16) % padded == 0:
        return _windows(images, (nbytes - 16) // padded)
    products = max(nbytes - (padded - channels) * _VECTOR_BYTES, 1) // channels
    shared = convolution(images.pixels * padded // _CHANNEL_GROUP, products)
    ticks = shared + (_SINGLE_PIXEL_TICKS if images.pixels == 1 else 0)
    return Cost(ticks, Basis.FITTED, _CONVOLUTION, shared, images.size)


def _older_convolution(node: OperatorTensors) -> Cost | None:
    """Cost of a convolution of XMOS's earlier converters: its weights are those of each output channel."""
    images, weights = Images.of(node, flat=True), node.input(1)
    if images is None or weights is None or not images.output[3]:
        return None
    products = max(weights.nbytes // images.output[3], 1)
    shared = convolution(images.pixels * _groups(images.output[3]), products)
    ticks = shared + (_SINGLE_PIXEL_TICKS if images.pixels == 1 else 0)
    return Cost(ticks, Basis.FITTED, _CONVOLUTION, shared, images.size)


def _older_depthwise(node: OperatorTensors) -> Cost | None:
    """Cost of a depthwise convolution of those converters, whose weights are the taps of each channel."""
    images, weights = Images.of(node), node.input(1)
    if images is None or weights is None or not images.output[3]:
        return None
    return _windows(images, max(weights.nbytes // images.output[3], 1))


def _lookup(node: OperatorTensors) -> Cost | None:
    if node.output is None:
        return None
    elements = math.prod(node.output.shape)
    ticks = _LOOKUP_TICKS * elements
    return Cost(ticks, Basis.FITTED, "published lookup", ticks, (1, max(elements, 1)))


def _fully_connected(node: OperatorTensors) -> Cost | None:
    """Cost of a 1x1 convolution that has a pixel for each row of the batch, and a fixed cost."""
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 2 or not weights.shape[0]:
        return None
    rows = math.prod(output.shape) // weights.shape[0]
    ticks = convolution(rows * _groups(weights.shape[0]), weights.shape[1]) + _SINGLE_PIXEL_TICKS
    return Cost(ticks, Basis.FITTED, "published run, node 43")


def _average_pool(node: OperatorTensors) -> Cost | None:
    images = Images.of(node)
    options = node.operator.options
    return None if images is None else _windows(images, options.kernel_w * options.kernel_h)


def _max_pool(node: OperatorTensors) -> Cost | None:
    return _as_estimate(_average_pool(node))


def _older_average_pool(node: OperatorTensors) -> Cost | None:
    """Cost of the average pool of XMOS's earlier converters, as that of TensorFlow Lite."""
    images, window = Images.of(node), _older_window(node)
    return None if images is None or window is None else _windows(images, window)


def _older_global_average_pool(node: OperatorTensors) -> Cost | None:
    """Cost of the pool whose window is the whole image; its output may be flat."""
    data, output = node.input(0), node.output
    if data is None or output is None or len(data.shape) != 4 or not data.shape[3]:
        return None
    batch, height, width, channels = data.shape
    return _windows(Images(data.shape, (batch, 1, 1, channels)), height * width)


def _older_max_pool(node: OperatorTensors) -> Cost | None:
    return _as_estimate(_older_average_pool(node))


def _older_window(node: OperatorTensors) -> int | None:
    """Taps of a pool's window: its options map `pool` to height and width."""
    try:
        window = CustomOptions.from_bytes(node.operator.custom_options).integers("pool")
    except ValueError:
        return None
    if window is None or len(window) != 2 or min(window) < 1:
        return None
    return window[0] * window[1]


def _as_estimate(cost: Cost | None) -> Cost | None:
    return None if cost is None else Cost(cost.ticks, Basis.ESTIMATE, _WINDOW, cost.shared, cost.image)


def _pad(node: OperatorTensors) -> Cost | None:
    data, output = node.input(0), node.output
    if data is None or output is None:
        return None
    ticks = pad(math.prod(data.shape[:-2]), output.nbytes)
    return Cost(ticks, Basis.FITTED, "published pads")


def _pad_3_to_4(node: OperatorTensors) -> Cost | None:
    if node.output is None:
        return None
    return Cost(_PAD_3_TO_4_TICKS * node.output.nbytes / 4, Basis.FITTED, "published run, node 0")


def _slice(node: OperatorTensors) -> Cost | None:
    """Cost of a slice: 110 ticks were published for one of 2 bytes; further bytes are a guess."""
    if node.output is None:
        return None
    nbytes = node.output.nbytes
    basis = Basis.FITTED if nbytes <= _VECTOR_BYTES else Basis.ESTIMATE
    return Cost(110 + _MOVE_BYTE_TICKS * nbytes, basis, "published run, node 44")


def _view(node: OperatorTensors) -> Cost:
    return Cost(reshape(node).ticks, Basis.ESTIMATE, "as a reshape")


PLAIN: Final[dict[str, CostRule]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _average_pool,
    "MAX_POOL_2D": _max_pool,
    "PAD": _pad,
    "SOFTMAX": softmax,
    "RESHAPE": reshape,
    "SQUEEZE": _view,
    "EXPAND_DIMS": _view,
    "STRIDED_SLICE": _slice,
}
"""Operators of TensorFlow Lite, as the converter replaces them."""

XMOS: Final[dict[str, CostRule]] = {
    "XC_conv2d_v2": _xc_conv2d,
    "XC_conv2d_deep": _older_convolution,
    "XC_conv2d_shallowin": _older_convolution,
    "XC_conv2d_1x1": _older_convolution,
    "XC_conv2d_depthwise": _older_depthwise,
    "XC_conv2d_shallowin_deepout_relu": _older_convolution,
    "XC_conv2d_deepin_deepout_relu": _older_convolution,
    "XC_fc": _older_convolution,
    "XC_fc_deepin_anyout": _older_convolution,
    "XC_avgpool2d": _older_average_pool,
    "XC_avgpool2d_global": _older_global_average_pool,
    "XC_maxpool2d": _older_max_pool,
    "XC_lookup": _lookup,
    "XC_lookup_8": _lookup,
    "XC_pad": _pad,
    "XC_pad_v2": _pad,
    "XC_pad_3_to_4": _pad_3_to_4,
    "XC_softmax": softmax,
    "XC_strided_slice": _slice,
    "XC_slice": _slice,
    "XC_no_op": _view,
}
"""XMOS's own operators."""
