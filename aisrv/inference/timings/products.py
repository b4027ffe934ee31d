"""Multiply-accumulates of an operator, from its shapes."""

import math
from collections.abc import Callable
from typing import Final

from aisrv.inference.timings.converted import convolution_of
from aisrv.inference.timings.operator_tensors import OperatorTensors


def macs_of(node: OperatorTensors) -> int:
    """Return the multiply-accumulates of one run; 0 where there are none to be told."""
    rule = _RULES.get(node.operator.name)
    return 0 if rule is None else rule(node)


def _shape(node: OperatorTensors, position: int, rank: int) -> tuple[int, ...] | None:
    tensor = node.input(position)
    return tensor.shape if tensor is not None and len(tensor.shape) == rank else None


def _outputs(node: OperatorTensors) -> int:
    return 0 if node.output is None else math.prod(node.output.shape)


def _convolution(node: OperatorTensors) -> int:
    weights = _shape(node, 1, 4) or _shape(node, 1, 5)
    return 0 if weights is None else _outputs(node) * math.prod(weights[1:])


def _depthwise(node: OperatorTensors) -> int:
    weights = _shape(node, 1, 4)
    return 0 if weights is None else _outputs(node) * math.prod(weights[1:3])


def _fully_connected(node: OperatorTensors) -> int:
    weights = _shape(node, 1, 2)
    return 0 if weights is None else _outputs(node) * weights[1]


def _transposed(node: OperatorTensors) -> int:
    weights, data = _shape(node, 1, 4), node.input(2)
    return 0 if weights is None or data is None else math.prod(data.shape) * math.prod(weights[:3])


def _batch_matmul(node: OperatorTensors) -> int:
    left = node.input(0)
    if left is None or len(left.shape) < 2:
        return 0
    return _outputs(node) * left.shape[-2 if node.operator.options.integer("adj_x") else -1]


def _xmos(node: OperatorTensors) -> int:
    layer = convolution_of(node)
    return 0 if layer is None else layer.pixels * layer.channels * layer.taps * layer.depth


def _svdf(node: OperatorTensors) -> int:
    features, times = _shape(node, 1, 2), _shape(node, 2, 2)
    data = node.input(0)
    if features is None or times is None or data is None or not data.shape:
        return 0
    return data.shape[0] * (math.prod(features) + math.prod(times))


_LSTM_INPUT_WEIGHTS: Final = range(1, 5)
_LSTM_RECURRENT_WEIGHTS: Final = range(5, 9)
_LSTM_PROJECTION: Final = 16


def _lstm(node: OperatorTensors) -> int:
    data = node.input(0)
    if data is None or len(data.shape) != 3:
        return 0
    positions = (*_LSTM_INPUT_WEIGHTS, *_LSTM_RECURRENT_WEIGHTS, _LSTM_PROJECTION)
    weights = (node.input(position) for position in positions)
    step = sum(math.prod(each.shape) for each in weights if each is not None and len(each.shape) == 2)
    return data.shape[0] * data.shape[1] * step


_RULES: Final[dict[str, Callable[[OperatorTensors], int]]] = {
    "CONV_2D": _convolution,
    "CONV_3D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transposed,
    "BATCH_MATMUL": _batch_matmul,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "XC_conv2d_v2": _xmos,
}
