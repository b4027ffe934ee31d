"""Costs of TensorFlow Lite Micro's reference kernels, which run what no converter replaced.

They also run what is left of TensorFlow Lite's operators in a converted file.
"""

import math
from typing import Final

from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import Basis, Conditions, Cost, CostRule
from aisrv.inference.timings.generation import Generation
from aisrv.inference.timings.laws import Scalar
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.products import macs_of
from aisrv.inference.timings.scalar_cost import (
    carried,
    moving_pieces,
    other_lines,
    pieces_of,
    scalar,
    steps_of,
)


def each_element(node: OperatorTensors, conditions: Conditions) -> Cost:
    """Return the cost of an operator that takes a step for each element of its largest tensor."""
    return steps_of(laws.STEP, node.largest_elements, node, conditions)


def pad(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Return the cost of PAD: of elements that are copied, of those that are added, and of pixels."""
    data, output = node.input(0), node.output
    if data is None or output is None:
        return None
    copied, total = math.prod(data.shape), math.prod(output.shape)
    slots = laws.PAD_INPUT_ELEMENT * copied + laws.PAD_ADDED_ELEMENT * max(total - copied, 0)
    slots += laws.PAD_PIXEL * math.prod(output.shape[:-1])
    basis = Basis.MEASURED if conditions.generation.is_early else Basis.CARRIED
    lines = other_lines(node, conditions)
    return Cost(slots, basis, laws.PAD_BAND, laws.MOBILENET_2022, lines=lines)


def softmax(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    early = conditions.generation.is_early
    law = laws.SOFTMAX_2022 if early else laws.SOFTMAX_2023
    return scalar(law, math.prod(node.output.shape), node, conditions)


def reshape(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    return None if node.output is None else carried(laws.RESHAPE, node.output.nbytes, node, conditions)


def _strided_slice(node: OperatorTensors, conditions: Conditions) -> Cost:
    return _with_elements(laws.STRIDED_SLICE, 0, _elements(node) - 1, node, conditions)


def _pack(node: OperatorTensors, conditions: Conditions) -> Cost:
    count = len(node.inputs)
    return _with_elements(laws.PACK, count, _elements(node) - count, node, conditions)


def _elements(node: OperatorTensors) -> int:
    return 0 if node.output is None else math.prod(node.output.shape)


def _with_elements(
    law: Scalar, units: int, further: int, node: OperatorTensors, conditions: Conditions
) -> Cost:
    """The cost by a law that was measured on one element of each input; `further` ones are an estimate."""
    cost = carried(law, units, node, conditions)
    if further <= 0:
        return cost
    slots = cost.slots + laws.ELEMENT * further
    return Cost(slots, Basis.ESTIMATE, laws.ESTIMATE_BAND, laws.STEP.source, lines=cost.lines)


def _pieces(node: OperatorTensors, conditions: Conditions) -> Cost:
    """Estimate the cost of an operator that joins tensors, or cuts one: of each, so many pieces."""
    count = max(len(node.inputs), len(node.outputs))
    return moving_pieces(count * pieces_of(node), node, conditions)


def _shape(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    data = node.input(0)
    return None if data is None else carried(laws.SHAPE, len(data.shape), node, conditions)


def _mean(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    data = node.input(0)
    if data is None:
        return None
    return _of_basis(laws.MEAN, math.prod(data.shape), node, conditions, early=True, is_measured=True)


def _depthwise_conv_2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    count, weights = macs_of(node), node.input(1)
    if not count or weights is None:
        return None
    is_measured = weights.shape[1:3] == (3, 3)
    return _of_basis(laws.DEPTHWISE_STEP, count, node, conditions, early=False, is_measured=is_measured)


def _conv_2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    count, weights = macs_of(node), node.input(1)
    if not count or weights is None:
        return None
    is_measured = weights.shape[1:3] == (1, 1)
    return _of_basis(laws.CONV_2D_STEP, count, node, conditions, early=True, is_measured=is_measured)


def _of_basis(
    law: Scalar,
    count: int,
    node: OperatorTensors,
    conditions: Conditions,
    *,
    early: bool,
    is_measured: bool,
) -> Cost:
    """The cost by a law of 2022 (`early`) or of 2023: carried to others, extrapolated to other windows."""
    basis = Basis.CARRIED
    if conditions.generation.is_early is early and conditions.generation is not Generation.G2024:
        basis = Basis.MEASURED
    return steps_of(law._replace(basis=basis if is_measured else Basis.EXTRAPOLATED), count, node, conditions)


def _products(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    """Estimate the cost of a kernel whose innermost loop is a multiply-accumulate."""
    count = macs_of(node)
    return steps_of(laws.STEP._replace(band=laws.PRODUCT_BAND), count, node, conditions) if count else None


def _pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    options = node.operator.options
    count = math.prod(node.output.shape) * options.kernel_w * options.kernel_h
    return steps_of(laws.STEP, count, node, conditions)


REFERENCE: Final[dict[str, CostRule]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "FULLY_CONNECTED": _products,
    "TRANSPOSE_CONV": _products,
    "BATCH_MATMUL": _products,
    "SVDF": _products,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _products,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "L2_POOL_2D": _pool,
    "PAD": pad,
    "MEAN": _mean,
    "SOFTMAX": softmax,
    "RESHAPE": reshape,
    "SQUEEZE": reshape,
    "EXPAND_DIMS": reshape,
    "STRIDED_SLICE": _strided_slice,
    "SHAPE": _shape,
    "PACK": _pack,
    "CONCATENATION": _pieces,
    "SPLIT": _pieces,
    "SPLIT_V": _pieces,
    "UNPACK": _pieces,
}
"""Operators of TensorFlow Lite; of all others `each_element` is the estimate."""
