"""Costs of XMOS's own operators.

Times were published of convolutions, pads, lookups, slices and softmax. What is counted in the assembly of
XMOS lib_nn, or in the C of lib_tflite_micro, is an estimate, and so is what moves bytes alone.
"""

import math
from typing import Final

from aisrv.inference.timings import laws
from aisrv.inference.timings.converted import convolution_of
from aisrv.inference.timings.convolution import Convolution, cost_of
from aisrv.inference.timings.cost import Band, Basis, Conditions, Cost, CostRule
from aisrv.inference.timings.generation import option_names
from aisrv.inference.timings.laws import GROUP, VECTOR, Form, Scalar
from aisrv.inference.timings.operator_tensors import Images, OperatorTensors
from aisrv.inference.timings.scalar_cost import as_estimate, moving_pieces, other_lines, pieces_of, scalar
from aisrv.model import TensorType
from aisrv.model.custom_options import CustomOptions

_FURTHER: Final = Band(0.7, 1.5)
"""Of kernels of 2021, whose code is older than any that was measured."""
_OLDER: Final = "as the kernels of 2022"
POOL: Final = "as a depthwise convolution"


def windows(images: Images | None, kernel: tuple[int, int], conditions: Conditions) -> Cost | None:
    """Return the cost of a pool, or of any operator that goes over windows of each channel."""
    if images is None:
        return None
    batch, height, width, channels = images.output
    return cost_of(Convolution(Form.DEPTHWISE, height, width, channels, kernel, 1, batch), conditions)


def _xc_conv2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    layer = convolution_of(node)
    if layer is None:
        return None
    cost = cost_of(layer, conditions)
    data = node.input(0)
    is_int8 = data is None or data.type is TensorType.INT8
    return cost if is_int8 else as_estimate(cost, "as the kernels of 8 bits, by bytes")


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
    return _older(windows(images, (side, side) if side * side == taps else (1, taps), conditions))


def _older_average_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of the average pool of XMOS's earlier converters, as that of TensorFlow Lite."""
    window = _older_window(node)
    return None if window is None else _older(windows(Images.of(node), window, conditions))


def _older_global_average_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of the pool whose window is the whole image; its output may be flat."""
    data, output = node.input(0), node.output
    if data is None or output is None or len(data.shape) != 4 or not data.shape[3]:
        return None
    batch, height, width, channels = data.shape
    images = Images(data.shape, (batch, 1, 1, channels))
    return _older(windows(images, (height, width), conditions))


def _xc_max_pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    images = Images.of(node)
    window = _older_window(node)
    if images is not None and min(images.output) > 0 and "mp" in option_names(node.operator):
        # Since 2023-12 the options do not tell it: as far as windows lie apart.
        window = -(-images.data[1] // images.output[1]), -(-images.data[2] // images.output[2])
    return None if window is None else as_estimate(windows(images, window, conditions), POOL)


def _older_window(node: OperatorTensors) -> tuple[int, int] | None:
    """A pool's window: its options map `pool` to height and width."""
    try:
        window = CustomOptions.from_bytes(node.operator.custom_options).integers("pool")
    except ValueError:
        return None
    if window is None or len(window) != 2 or min(window) < 1:
        return None
    return window[0], window[1]


def pad_cost(rows: int, nbytes: int) -> Cost:
    """Return the cost of XMOS's pad of so many input rows and output bytes."""
    slots = laws.XC_PAD_FIXED + laws.XC_PAD_ROW * rows + laws.XC_PAD_BYTE * nbytes
    return Cost(slots, Basis.MEASURED, laws.PAD_BAND, laws.PERSON_2023)


def xc_pad(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Return the cost of `XC_pad`."""
    data, output = node.input(0), node.output
    if data is None or output is None:
        return None
    cost = pad_cost(math.prod(data.shape[:-2]), output.nbytes)
    lines = other_lines(node, conditions)
    return Cost(cost.slots, cost.basis, cost.band, cost.source, lines=lines)


def _pad_3_to_4(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    return scalar(laws.PAD_3_TO_4, node.output.nbytes / 4, node, conditions)


def lookup(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Return the cost of a table that gives each element its result; threads share it."""
    if node.output is None:
        return None
    elements = math.prod(node.output.shape)
    law = laws.LOOKUP
    slots = law.per_unit * elements
    lines = other_lines(node, conditions)
    return Cost(
        slots, law.basis, law.band, law.source, shared=slots, image=(1, max(elements, 1)), lines=lines
    )


def of_elements(law: Scalar) -> CostRule:
    """The rule of an operator that costs a law of its output's elements."""

    def cost(node: OperatorTensors, conditions: Conditions) -> Cost | None:
        if node.output is None:
            return None
        return scalar(law, math.prod(node.output.shape), node, conditions)

    return cost


def _bits(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of an operator that makes bits of the elements of its input."""
    data = node.input(0)
    return None if data is None else scalar(laws.SIGN, math.prod(data.shape), node, conditions)


def _mean(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    data, output = node.input(0), node.output
    if data is None or output is None:
        return None
    outputs = laws.XC_MEAN_OUTPUT / laws.XC_MEAN.per_unit * math.prod(output.shape)
    return scalar(laws.XC_MEAN, math.prod(data.shape) + outputs, node, conditions)


def _float_products(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Cost of a convolution of floats, or a fully connected layer: its weights, for each output pixel."""
    weights, output = node.input(1), node.output
    if weights is None or output is None:
        return None
    pixels = math.prod(output.shape[1:-1])
    return scalar(laws.FLOAT_PRODUCT, math.prod(weights.shape) * pixels, node, conditions)


def _copies(node: OperatorTensors, conditions: Conditions) -> Cost:
    """Cost of an operator that copies as many pieces as its options say: of each input, or each of `b`."""
    repeats = _option(node, "b") or max(len(node.inputs), 1)
    return moving_pieces((_option(node, "n") or 1) * repeats, node, conditions)


def _option(node: OperatorTensors, name: str) -> int | None:
    try:
        number = CustomOptions.from_bytes(node.operator.custom_options).integer(name)
    except ValueError:
        return None
    return number if number is not None and number > 0 else None


def _xc_softmax(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    cost = scalar(laws.XC_SOFTMAX, math.prod(node.output.shape), node, conditions)
    if math.prod(node.output.shape) <= 2 and node.operator.name == "XC_softmax":
        return cost
    return Cost(cost.slots, Basis.EXTRAPOLATED, laws.ESTIMATE_BAND, cost.source, lines=cost.lines)


def slice_of(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Return the cost of a slice: a copy of each piece."""
    if node.output is None:
        return None
    law = laws.XC_SLICE_2024 if node.operator.name == "XC_slice" else laws.XC_SLICE
    pieces = _option(node, "n") or pieces_of(node)
    cost = scalar(law, node.output.nbytes + laws.COPY / law.per_unit * (pieces - 1), node, conditions)
    is_measured = node.output.nbytes <= VECTOR and pieces == 1
    return cost if is_measured else as_estimate(cost, "pieces copied")


def _view(node: OperatorTensors, conditions: Conditions) -> Cost:
    return scalar(laws.VIEW, 0, node, conditions)


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
    "XC_lookup": lookup,
    "XC_lookup_8": lookup,
    "XC_pad": xc_pad,
    "XC_pad_v2": xc_pad,
    "XC_pad_3_to_4": _pad_3_to_4,
    "XC_softmax": _xc_softmax,
    "XC_batched_softmax": _xc_softmax,
    "XC_add": of_elements(laws.ADD),
    "XC_add_8": of_elements(laws.ADD),
    "XC_mul": of_elements(laws.ADD),
    "XC_binaryi16": of_elements(laws.INT16),
    "XC_unaryi16": of_elements(laws.INT16),
    "XC_expand_8_to_16": of_elements(laws.EXPAND),
    "XC_bsign_8": _bits,
    "XC_mean": _mean,
    "XC_concat": _copies,
    "XC_broadcast": _copies,
    "XC_beta_activationf32": of_elements(laws.FLOAT_FUNCTION),
    "XC_beta_convf32": _float_products,
    "XC_beta_transposeconvf32": _float_products,
    "XC_beta_fcf32": _float_products,
    "XC_strided_slice": slice_of,
    "XC_slice": slice_of,
    "XC_no_op": _view,
}
"""XMOS's own operators."""
