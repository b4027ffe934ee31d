"""Costs of TensorFlow Lite Micro's reference kernels, which run what no converter replaced.

One figure is published: two depthwise convolutions of 20,736 multiply-accumulates each took 4,487,819 ticks.
The others are taken to need as long for each step of their innermost loop.
"""

import math
from typing import Final

from aisrv.inference.timings.cost import Basis, Cost, CostRule
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.optimized import moving_bytes, reshape, softmax

STEP_TICKS: Final = 4_487_819 / (2 * 20_736)
"""Of a multiply-accumulate, about 108."""

_STEPS: Final = "108 ticks a step, as a reference depthwise convolution"


def steps(count: int) -> Cost:
    """Return the cost of a number of steps, as an estimate."""
    return Cost(STEP_TICKS * count, Basis.ESTIMATE, _STEPS)


def each_element(node: OperatorTensors) -> Cost:
    """Return the cost of an operator that takes a step for each element of its largest tensor."""
    return steps(node.largest_elements)


def _depthwise_conv_2d(node: OperatorTensors) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 4:
        return None
    count = math.prod(output.shape) * math.prod(weights.shape[1:3])
    return Cost(STEP_TICKS * count, Basis.FITTED, "published reference depthwise convolutions")


def _conv_2d(node: OperatorTensors) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 4:
        return None
    return steps(math.prod(output.shape) * math.prod(weights.shape[1:]))


def _fully_connected(node: OperatorTensors) -> Cost | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 2:
        return None
    return steps(math.prod(output.shape) * weights.shape[1])


def _pool(node: OperatorTensors) -> Cost | None:
    if node.output is None:
        return None
    options = node.operator.options
    return steps(math.prod(node.output.shape) * options.kernel_w * options.kernel_h)


REFERENCE: Final[dict[str, CostRule]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    # In the published runs these two were TensorFlow Lite Micro's own.
    "SOFTMAX": softmax,
    "RESHAPE": reshape,
    "CONCATENATION": moving_bytes,
    "SPLIT": moving_bytes,
    "SPLIT_V": moving_bytes,
    "PACK": moving_bytes,
    "UNPACK": moving_bytes,
}
"""Operators of TensorFlow Lite; of all others `each_element` is the estimate."""
