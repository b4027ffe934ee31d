"""Operators on resource variables: handles, reading, assigning, and first values."""

from collections.abc import Iterator
from typing import NamedTuple

from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.network import nothing
from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import Model, Operator, TensorType


def var_handle(node: OperatorNode) -> Kernel:
    """Prepare VAR_HANDLE: nothing to do in a run, its output stands for the variable."""
    if node.inputs or len(node.outputs) != 1:
        raise NetworkError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    output = node.outputs[0]
    if output.tensor.type is not TensorType.RESOURCE:
        raise NetworkError(f"{output} is {output.tensor.type.name}, must be RESOURCE")
    node.variables.name(output.tensor.index, _variable_name(node.operator))
    return nothing


def read_variable(node: OperatorNode) -> Kernel:
    """Prepare READ_VARIABLE: copy a variable out."""
    node.expect(1)
    output = node.output()
    variable = node.variables.of(_handle(node), len(output.buffer), _first(output))
    write = output.buffer

    def kernel() -> None:
        write[:] = variable

    return kernel


def assign_variable(node: OperatorNode) -> Kernel:
    """Prepare ASSIGN_VARIABLE: copy a tensor in."""
    node.expect(2, 0)
    source = node.input(1)
    variable = node.variables.of(_handle(node), len(source.buffer), _first(source))
    read = source.buffer

    def kernel() -> None:
        variable[:] = read

    return kernel


def call_once(node: OperatorNode) -> Kernel:
    """Prepare CALL_ONCE: in the first run only, variables get the constants that a subgraph assigns."""
    node.expect(0, 0)
    if not node.options.fields:
        raise NetworkError("does not say which subgraph to call")
    pending = [
        (node.variables.named(variable, len(value), 0), value.cast("b"))
        for variable, value in _assignments(node.model, node.options.integer("init_subgraph_index"))
    ]

    def kernel() -> None:
        while pending:
            variable, value = pending.pop()
            variable[:] = value

    return kernel


class _Assignment(NamedTuple):
    variable: str
    value: memoryview


def _assignments(model: Model, number: int) -> Iterator[_Assignment]:
    """Assignments of a subgraph to variables; NetworkError if it does anything else."""
    subgraphs = model.other_subgraphs
    if not 0 < number <= len(subgraphs):
        raise NetworkError(f"there is no subgraph {number} to call: the file has {len(subgraphs) + 1}")
    tensors = subgraphs[number - 1].tensors
    handles: dict[int, str] = {}
    for operator in subgraphs[number - 1].operators:
        where = f"subgraph {number}: operator {operator.index}"
        inputs, outputs = operator.inputs, operator.outputs
        if operator.name == "VAR_HANDLE" and len(outputs) == 1:
            handles[outputs[0]] = _variable_name(operator, where)
        elif operator.name == "ASSIGN_VARIABLE" and len(inputs) == 2 and inputs[0] in handles:
            data = tensors[inputs[1]].data if inputs[1] >= 0 else None
            if not data:
                raise NetworkError(f"{where} assigns tensor {inputs[1]}, which is not a dense constant")
            yield _Assignment(handles[inputs[0]], memoryview(data))
        else:
            raise NetworkError(
                f"{where} is {operator.name}: a subgraph that is called once may only assign constants"
            )


def _variable_name(operator: Operator, where: str = "") -> str:
    """Container and name of the variable that an operator VAR_HANDLE declares."""
    fields = operator.options.fields
    if not fields:
        raise NetworkError(f"{where or f'operator {operator.index}'} (VAR_HANDLE) does not name its variable")
    return f"{fields['container']}/{fields['shared_name']}"


def _handle(node: OperatorNode) -> int:
    handle = node.inputs[0]
    if handle is None:
        raise NetworkError("has no handle of a variable")
    return handle.tensor.index


def _first(tensor: NetworkTensor) -> int:
    quantization = tensor.tensor.quantization
    return 0 if quantization is None else quantization.zero_points[0]
