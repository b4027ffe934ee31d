"""Costs of TensorFlow Lite Micro's reference kernels, which run what no converter replaced.

They also run what is left of TensorFlow Lite's operators in a converted file.
"""

import math
from typing import Final

from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import Basis, Conditions, Cost, CostRule
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.scalar_cost import carried, moving_bytes, other_lines, scalar, steps_of


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
    return carried(laws.STRIDED_SLICE, 0, node, conditions)


def _pack(node: OperatorTensors, conditions: Conditions) -> Cost:
    return carried(laws.PACK, len(node.inputs), node, conditions)


def _shape(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    data = node.input(0)
    return None if data is None else carried(laws.SHAPE, len(data.shape), node, conditions)


def _mean(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    data = node.input(0)
    return None if data is None else steps_of(laws.MEAN, math.prod(data.shape), node, conditions)


def _depthwise_conv_2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 4:
        return None
    count = math.prod(output.shape) * math.prod(weights.shape[1:3])
    return steps_of(laws.DEPTHWISE_STEP, count, node, conditions)


def _conv_2d(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 4:
        return None
    count = math.prod(output.shape) * math.prod(weights.shape[1:])
    return steps_of(laws.CONV_2D_STEP, count, node, conditions)


def _fully_connected(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 2:
        return None
    return steps_of(laws.STEP, math.prod(output.shape) * weights.shape[1], node, conditions)


def _pool(node: OperatorTensors, conditions: Conditions) -> Cost | None:
    if node.output is None:
        return None
    options = node.operator.options
    count = math.prod(node.output.shape) * options.kernel_w * options.kernel_h
    return steps_of(laws.STEP, count, node, conditions)


REFERENCE: Final[dict[str, CostRule]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "PAD": pad,
    "MEAN": _mean,
    "SOFTMAX": softmax,
    "RESHAPE": reshape,
    "SQUEEZE": reshape,
    "EXPAND_DIMS": reshape,
    "STRIDED_SLICE": _strided_slice,
    "SHAPE": _shape,
    "PACK": _pack,
    "CONCATENATION": moving_bytes,
    "SPLIT": moving_bytes,
    "SPLIT_V": moving_bytes,
    "UNPACK": moving_bytes,
}
"""Operators of TensorFlow Lite; of all others `each_element` is the estimate."""
