"""Costs of a plain file's operators, as XMOS's converter would replace them.

A plain operator costs what the converter makes of it: a convolution with padding becomes one without, after
operators that pad its input, and all are counted here. The tools of 2021 and 2022 left most padding to the
kernel itself.
"""

import math
from typing import Final

from aisrv.inference.timings import laws
from aisrv.inference.timings.convolution import Convolution, cost_of, outside_taps
from aisrv.inference.timings.cost import NO_LINES, Conditions, Cost, CostRule, Lines
from aisrv.inference.timings.laws import GROUP, VECTOR, Form
from aisrv.inference.timings.operator_tensors import Images, OperatorTensors
from aisrv.inference.timings.reference import reshape, softmax
from aisrv.inference.timings.scalar_cost import as_estimate
from aisrv.inference.timings.xmos_operators import (
    POOL,
    lookup,
    of_elements,
    pad_cost,
    slice_of,
    windows,
    xc_pad,
)
from aisrv.model import Padding


def _moved_lines(nbytes: int, conditions: Conditions) -> Lines:
    """Return the lines of external memory of a pad that reads and writes `nbytes`."""
    if not conditions.external_arena:
        return NO_LINES
    count = laws.ARENA_OPERATOR + laws.ARENA_MOVED_LINE * 2 * nbytes / VECTOR
    return Lines.within(count, laws.ARENA_BAND)


def _weights_shape(node: OperatorTensors) -> tuple[int, ...] | None:
    weights = node.input(1)
    return weights.shape if weights is not None and len(weights.shape) == 4 else None


class _Padding:
    """Padding of a plain convolution, by the converter or the kernel."""

    def __init__(self, node: OperatorTensors, images: Images, kernel: tuple[int, int]) -> None:
        options = node.operator.options
        self.batch, self.height, self.width, self.channels = images.data
        self.padded = (self.height, self.width)
        if options.padding is Padding.SAME:
            _, out_height, out_width, _ = images.output
            reach = (kernel[0] - 1) * options.dilation_h + 1, (kernel[1] - 1) * options.dilation_w + 1
            self.padded = (
                max(self.height, (out_height - 1) * options.stride_h + reach[0]),
                max(self.width, (out_width - 1) * options.stride_w + reach[1]),
            )
        self.is_own = options.stride_h == options.stride_w == 1

    @property
    def is_needed(self) -> bool:
        return self.padded != (self.height, self.width)

    def before(self, conditions: Conditions) -> tuple[Cost, ...]:
        """Return the pads that the converter puts before the convolution: of channels, then of the image."""
        costs = []
        channels = self.channels
        if channels == 3:
            slots = laws.PAD_3_TO_4.fixed + laws.PAD_3_TO_4.per_unit * self.batch * self.height * self.width
            law = laws.PAD_3_TO_4
            lines = _moved_lines(4 * self.batch * self.height * self.width, conditions)
            costs.append(Cost(slots, law.basis, law.band, law.source, lines=lines))
            channels = 4
        if self.is_needed:
            nbytes = self.batch * math.prod(self.padded) * channels
            pad = pad_cost(self.batch * self.height, nbytes)
            lines = _moved_lines(nbytes, conditions)
            costs.append(Cost(pad.slots, pad.basis, pad.band, pad.source, lines=lines))
        return tuple(costs)

    def outside(self, images: Images, kernel: tuple[int, int]) -> int:
        more = self.padded[0] - self.height, self.padded[1] - self.width
        pads = (more[0] // 2, more[1] // 2, -(-more[0] // 2), -(-more[1] // 2))
        return outside_taps(images.output[1], images.output[2], kernel, pads)


def _conv_2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    images, weights = Images.of(node), _weights_shape(node)
    if images is None or weights is None:
        return None
    _, kernel_h, kernel_w, depth = weights
    depth = 4 * math.ceil(depth / 4)
    padding = _Padding(node, images, (kernel_h, kernel_w))
    batch, height, width, channels = images.output
    is_direct = depth % VECTOR == 0 and channels % GROUP == 0
    own = conditions.generation.is_early and padding.is_needed
    form = Form.PADDED if own else Form.DIRECT if is_direct else Form.INDIRECT
    layer = Convolution(form, height, width, channels, (kernel_h, kernel_w), depth, batch)
    return cost_of(layer, conditions, before=() if own else padding.before(conditions))


def _depthwise_conv_2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    images, weights = Images.of(node), _weights_shape(node)
    if images is None or weights is None:
        return None
    kernel = weights[1], weights[2]
    padding = _Padding(node, images, kernel)
    own = conditions.generation.is_early and padding.is_needed and padding.is_own
    batch, height, width, channels = images.output
    layer = Convolution(
        Form.DEPTHWISE_PADDED if own else Form.DEPTHWISE,
        height,
        width,
        channels,
        kernel,
        1,
        batch,
        padding.outside(images, kernel) if own else 0,
    )
    return cost_of(layer, conditions, before=() if own else padding.before(conditions))


def _fully_connected(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 2 or not weights.shape[0]:
        return None
    outputs, inputs = weights.shape
    rows = math.prod(output.shape) // outputs
    return cost_of(Convolution.fully_connected(rows, outputs, inputs), conditions)


def _average_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    options = node.operator.options
    return windows(Images.of(node), (options.kernel_h, options.kernel_w), conditions)


def _max_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    return as_estimate(_average_pool(node, conditions), POOL)


def _replaced_softmax(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    return softmax(node, conditions)


PLAIN: Final[dict[str, CostRule]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _average_pool,
    "MAX_POOL_2D": _max_pool,
    "PAD": xc_pad,
    "SOFTMAX": _replaced_softmax,
    "RESHAPE": reshape,
    "STRIDED_SLICE": slice_of,
    "ADD": of_elements(laws.ADD),
    "MUL": of_elements(laws.ADD),
    "SUB": of_elements(laws.ADD),
    "LOGISTIC": lookup,
    "TANH": lookup,
    "RELU": lookup,
    "RELU6": lookup,
    "RELU_N1_TO_1": lookup,
    "ELU": lookup,
    "HARD_SWISH": lookup,
    "LEAKY_RELU": lookup,
}
"""Operators of TensorFlow Lite, as the converter replaces them; it leaves all others to reference kernels."""
