"""IF and WHILE: operators that run other subgraphs. Sources: `if.cc`, `while.cc` of TensorFlow Lite Micro."""

from collections.abc import Sequence

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.network import PreparedSubgraph
from aisrv.addons.kernels.network.operator_node import OperatorNode, same_shape, same_type
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import TensorType
from aisrv.model.control_flow import called


def if_(node: OperatorNode) -> Kernel:
    """Prepare IF: one of two subgraphs, by a bool, the first input; the others are the subgraph's."""
    if not node.inputs:
        raise NetworkError("has no condition")
    condition = _bool(node.input(0, TensorType.BOOL))
    inputs, outputs = [node.input(number) for number in range(1, len(node.inputs))], _outputs(node)
    then, otherwise = (_call(branch, inputs, outputs) for branch in _subgraphs(node))
    read = condition.buffer

    def kernel() -> None:
        (then if read[0] else otherwise)()

    return kernel


def while_(node: OperatorNode) -> Kernel:
    """Prepare WHILE: a subgraph that says whether to go on, and one that makes new values of the old ones."""
    inputs, outputs = [node.input(number) for number in range(len(node.inputs))], _outputs(node)
    condition, body = _subgraphs(node)
    if len(condition.outputs) != 1:
        raise NetworkError(f"the condition has {len(condition.outputs)} outputs, must have one")
    answer = _bool(condition.outputs[0]).buffer
    first, ask = _copies(inputs, outputs), _call(condition, outputs, ())
    step = _call(body, outputs, outputs)

    def kernel() -> None:
        first()
        ask()
        while answer[0]:
            step()
            ask()

    return kernel


def _outputs(node: OperatorNode) -> list[NetworkTensor]:
    return [node.output(number) for number in range(len(node.outputs))]


def _subgraphs(node: OperatorNode) -> tuple[PreparedSubgraph, PreparedSubgraph]:
    if not node.options.fields:
        raise NetworkError("does not say which subgraphs to call")
    first, second = (node.subgraph(number) for number in called(node.model, node.operator))
    return first, second


def _bool(tensor: NetworkTensor) -> NetworkTensor:
    if tensor.tensor.type is not TensorType.BOOL or len(tensor.buffer) != 1:
        raise NetworkError(f"{tensor}, a condition, must be one BOOL")
    return tensor


def _call(
    subgraph: PreparedSubgraph, inputs: Sequence[NetworkTensor], outputs: Sequence[NetworkTensor]
) -> Kernel:
    """A run of a subgraph, with its inputs and outputs copied; no outputs leave them where they are."""
    give, take = _copies(inputs, subgraph.inputs), _copies(subgraph.outputs if outputs else (), outputs)
    kernels = subgraph.kernels

    def run() -> None:
        give()
        for kernel in kernels:
            kernel()
        take()

    return run


def _copies(sources: Sequence[NetworkTensor], targets: Sequence[NetworkTensor]) -> Kernel:
    if len(sources) != len(targets):
        raise NetworkError(f"gives {len(sources)} tensors to {len(targets)}")
    for source, target in zip(sources, targets, strict=True):
        same_type(source, target)
        same_shape(source, target)
    pairs = [(source.buffer, target.buffer) for source, target in zip(sources, targets, strict=True)]

    def copy() -> None:
        for read, write in pairs:
            write[:] = read

    return copy
