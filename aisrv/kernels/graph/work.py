"""What an operator has to do: multiply-accumulates, and bytes of its tensors. Nothing here needs a run."""

import math
from typing import NamedTuple

from aisrv.model import Model, Operator


class Work(NamedTuple):
    """The size of an operator's task."""

    macs: int
    """Multiply-accumulates of convolutions and fully connected layers; taps outside of an input count."""
    bytes_read: int
    """Of its inputs, constants included, each once."""
    bytes_written: int


def operator_work(model: Model, operator: Operator) -> Work:
    """Work of one operator of a model that loads."""
    inputs = [model.tensors[index].nbytes for index in operator.inputs if index >= 0]
    outputs = [model.tensors[index].nbytes for index in operator.outputs]
    return Work(_macs(model, operator), sum(inputs), sum(outputs))


def _macs(model: Model, operator: Operator) -> int:
    if operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") or operator.is_custom:
        return 0
    weights = model.tensors[operator.inputs[1]].shape
    outputs = math.prod(model.tensors[operator.outputs[0]].shape)
    if operator.name == "DEPTHWISE_CONV_2D":
        return outputs * weights[1] * weights[2]
    return outputs * math.prod(weights[1:])
