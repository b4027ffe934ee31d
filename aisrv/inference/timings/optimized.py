"""Costs of XMOS's own operators, and of a plain file's, as its converter would replace them.

A plain operator costs what the converter makes of it: a convolution with padding becomes one without, after
operators that pad its input, and all are counted here. The tools of 2021 and 2022 left most padding to the
kernel itself.
"""

import math
from typing import Final

from aisrv.inference.timings import laws
from aisrv.inference.timings.converted import convolution_of
from aisrv.inference.timings.convolution import Convolution, cost_of, outside_taps
from aisrv.inference.timings.cost import NO_LINES, Band, Basis, Conditions, Cost, CostRule, Lines
from aisrv.inference.timings.laws import GROUP, VECTOR, Form
from aisrv.inference.timings.operator_tensors import Images, OperatorTensors
from aisrv.inference.timings.reference import reshape, softmax
from aisrv.inference.timings.scalar_cost import as_estimate, moving_bytes, other_lines, scalar
from aisrv.model import Padding
from aisrv.model.custom_options import CustomOptions

_FURTHER: Final = Band(0.7, 1.5)
"""Band factor of kernels of 2021, whose code is older than any that was measured."""
_OLDER: Final = "as the kernels of 2022"
_POOL: Final = "as a depthwise convolution"


def _moved_lines(nbytes: int, conditions: Conditions) -> Lines:
    """Return the lines of external memory of a pad that reads and writes `nbytes`."""
    if not conditions.external_arena:
        return NO_LINES
    count = laws.ARENA_OPERATOR + laws.ARENA_MOVED_LINE * 2 * nbytes / VECTOR
    return Lines.within(count, laws.ARENA_BAND)


def _weights_shape(node: OperatorTensors) -> tuple[int, ...] | None:
    weights = node.input(1)
    return weights.shape if weights is not None and len(weights.shape) == 4 else None


# Plain operators.


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
            pad = _pad_cost(self.batch * self.height, nbytes)
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
    return _windows(Images.of(node), (options.kernel_h, options.kernel_w), conditions)


def _windows(images: Images | None, kernel: tuple[int, int], conditions: Conditions) -> Cost | None:
    if images is None:
        return None
    batch, height, width, channels = images.output
    return cost_of(Convolution(Form.DEPTHWISE, height, width, channels, kernel, 1, batch), conditions)


def _max_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    return as_estimate(_average_pool(node, conditions), _POOL)


def _replaced_softmax(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    return softmax(node, conditions)


# XMOS's operators.


def _xc_conv2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    layer = convolution_of(node)
    return None if layer is None else cost_of(layer, conditions)


def _older(cost: Cost | None) -> Cost | None:
    if cost is None:
        return None
    return Cost(
        cost.slots,
        Basis.EXTRAPOLATED,
        _FURTHER,
        _OLDER,
        form=cost.form,
        shared=cost.shared,
        image=cost.image,
        layer_slots=cost.layer_slots,
        lines=cost.lines,
    )


def _older_convolution(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of a convolution of XMOS's earlier converters: its weights are those of each output channel."""
    images, weights = Images.of(node, flat=True), node.input(1)
    if images is None or weights is None or not images.output[3] or not images.data[3]:
        return None
    batch, height, width, channels = images.output
    products = max(weights.nbytes // channels, 1)
    depth = min(images.data[3], products)
    taps = max(1, products // depth)
    is_direct = depth % VECTOR == 0 and channels % GROUP == 0
    form = Form.DIRECT if is_direct else Form.INDIRECT
    return _older(cost_of(Convolution(form, height, width, channels, (1, taps), depth, batch), conditions))


def _older_depthwise(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of a depthwise convolution of those converters, whose weights are the taps of each channel."""
    images, weights = Images.of(node), node.input(1)
    if images is None or weights is None or not images.output[3]:
        return None
    taps = max(weights.nbytes // images.output[3], 1)
    side = math.isqrt(taps)
    return _older(_windows(images, (side, side) if side * side == taps else (1, taps), conditions))


def _older_average_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of the average pool of XMOS's earlier converters, as that of TensorFlow Lite."""
    window = _older_window(node)
    return None if window is None else _older(_windows(Images.of(node), window, conditions))


def _older_global_average_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of the pool whose window is the whole image; its output may be flat."""
    data, output = node.input(0), node.output
    if data is None or output is None or len(data.shape) != 4 or not data.shape[3]:
        return None
    batch, height, width, channels = data.shape
    images = Images(data.shape, (batch, 1, 1, channels))
    return _older(_windows(images, (height, width), conditions))


def _xc_max_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    window = _older_window(node)
    if window is None:
        return None
    return as_estimate(_windows(Images.of(node), window, conditions), _POOL)


def _older_window(node: OperatorTensors) -> tuple[int, int] | None:
    """Return a pool's window: its options map `pool` to height and width."""
    try:
        window = CustomOptions.from_bytes(node.operator.custom_options).integers("pool")
    except ValueError:
        return None
    if window is None or len(window) != 2 or min(window) < 1:
        return None
    return window[0], window[1]


def _pad_cost(rows: int, nbytes: int) -> Cost:
    slots = laws.XC_PAD_FIXED + laws.XC_PAD_ROW * rows + laws.XC_PAD_BYTE * nbytes
    return Cost(slots, Basis.MEASURED, laws.PAD_BAND, laws.PERSON_2023)


def _xc_pad(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    data, output = node.input(0), node.output
    if data is None or output is None:
        return None
    cost = _pad_cost(math.prod(data.shape[:-2]), output.nbytes)
    lines = other_lines(node, conditions)
    return Cost(cost.slots, cost.basis, cost.band, cost.source, lines=lines)


def _pad_3_to_4(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    return scalar(laws.PAD_3_TO_4, node.output.nbytes / 4, node, conditions)


def _lookup(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    elements = math.prod(node.output.shape)
    law = laws.LOOKUP
    slots = law.per_unit * elements
    lines = other_lines(node, conditions)
    return Cost(
        slots, law.basis, law.band, law.source, shared=slots, image=(1, max(elements, 1)), lines=lines
    )


def _xc_softmax(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    cost = scalar(laws.XC_SOFTMAX, math.prod(node.output.shape), node, conditions)
    if math.prod(node.output.shape) <= 2:
        return cost
    return Cost(cost.slots, Basis.EXTRAPOLATED, laws.ESTIMATE_BAND, cost.source, lines=cost.lines)


def _slice(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    law = laws.XC_SLICE_2024 if node.operator.name == "XC_slice" else laws.XC_SLICE
    cost = scalar(law, node.output.nbytes, node, conditions)
    return cost if node.output.nbytes <= VECTOR else as_estimate(cost, "bytes moved")


def _view(node: OperatorTensors, conditions: Conditions) -> Cost:
    return scalar(laws.VIEW, 0, node, conditions)


PLAIN: Final[dict[str, CostRule]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _average_pool,
    "MAX_POOL_2D": _max_pool,
    "PAD": _xc_pad,
    "SOFTMAX": _replaced_softmax,
    "RESHAPE": reshape,
    "STRIDED_SLICE": _slice,
    "ADD": moving_bytes,
    "MUL": moving_bytes,
    "SUB": moving_bytes,
    "CONCATENATION": moving_bytes,
    "LOGISTIC": _lookup,
    "TANH": _lookup,
    "RELU": _lookup,
    "RELU6": _lookup,
    "RELU_N1_TO_1": _lookup,
    "ELU": _lookup,
    "HARD_SWISH": _lookup,
    "LEAKY_RELU": _lookup,
}
"""Operators of TensorFlow Lite, as the converter replaces them; it leaves all others to reference kernels."""

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
    "XC_maxpool2d": _xc_max_pool,
    "XC_lookup": _lookup,
    "XC_lookup_8": _lookup,
    "XC_pad": _xc_pad,
    "XC_pad_v2": _xc_pad,
    "XC_pad_3_to_4": _pad_3_to_4,
    "XC_softmax": _xc_softmax,
    "XC_strided_slice": _slice,
    "XC_slice": _slice,
    "XC_no_op": _view,
}


def is_depthwise(node: OperatorTensors) -> bool | None:
    """Check whether a convolution has a window for each channel; None for another operator."""
    name = node.operator.name
    if name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return name == "DEPTHWISE_CONV_2D"
    if name != "XC_conv2d_v2":
        return None
    layer = convolution_of(node)
    return None if layer is None else layer.form.is_depthwise
