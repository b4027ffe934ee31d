"""Small tensors that a network computes once, at load: they follow from constants and from shapes.

Converters write the new shape of a RESHAPE as a chain of operators (SHAPE, STRIDED_SLICE, PACK), which no run
need repeat. The plan keeps the places of such tensors, so that the arena's head stays TFLM's.
"""

from collections import Counter
from typing import Final

from msgspec.structs import replace

from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import Subgraph

LARGEST_FOLDED: Final = 1024
"""Bytes of outputs that are kept beside the arena for one operator; larger ones are computed in each run."""

_OF_SHAPES: Final = "SHAPE"


class Folding:
    """The operators of a subgraph that need no run."""

    def __init__(self, subgraph: Subgraph, start: int) -> None:
        """Note the tensors that somebody else may write; `start` is the number of the subgraph's first."""
        times = Counter(index for operator in subgraph.operators for index in operator.outputs)
        again = {index for index, count in times.items() if count > 1} | set(subgraph.inputs)
        self._written_again: Final = {start + index for index in again}

    def includes(self, node: OperatorNode) -> bool:
        """Tell whether the outputs of an operator are small, and the same after every run."""
        outputs = [output.tensor for output in node.outputs]
        if not outputs or sum(output.nbytes for output in outputs) > LARGEST_FOLDED:
            return False
        if any(output.is_variable or output.index in self._written_again for output in outputs):
            return False
        if node.operator.name == _OF_SHAPES:
            return True
        inputs = [each.tensor for each in node.inputs if each is not None]
        return bool(inputs) and all(each.is_constant for each in inputs)


def folded(outputs: tuple[NetworkTensor, ...]) -> tuple[NetworkTensor, ...]:
    """Make constants of tensors, of what is in them now."""
    return tuple(_constant(output) for output in outputs)


def _constant(output: NetworkTensor) -> NetworkTensor:
    data = output.buffer.tobytes()
    return NetworkTensor(replace(output.tensor, data=data), memoryview(data).cast("b"))
