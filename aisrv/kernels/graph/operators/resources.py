"""Operators on resource variables: handles, reading, assigning, and first values."""

from typing import Final

from aisrv.kernels.backend import Kernel
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.node import Node
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.model import TensorType
from aisrv.model.flatbuffer import I32

_CALL_ONCE_OPTIONS: Final = 103


def var_handle(node: Node) -> Kernel:
    """Prepare VAR_HANDLE: nothing to do in a run, its output stands for the variable."""
    if node.inputs or len(node.outputs) != 1:
        raise GraphError(f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs")
    output = node.outputs[0]
    if output.tensor.type is not TensorType.RESOURCE:
        raise GraphError(f"{output} is {output.tensor.type.name}, must be RESOURCE")
    node.variables.name(output.tensor.index, node.file.variable_name(node.operator.index))
    return _nothing


def read_variable(node: Node) -> Kernel:
    """Prepare READ_VARIABLE: copy a variable out."""
    node.expect(1)
    output = node.output()
    variable = node.variables.of(_handle(node), len(output.buffer), _first(output))
    write = output.buffer

    def kernel() -> None:
        write[:] = variable

    return kernel


def assign_variable(node: Node) -> Kernel:
    """Prepare ASSIGN_VARIABLE: copy a tensor in."""
    node.expect(2, 0)
    source = node.input(1)
    variable = node.variables.of(_handle(node), len(source.buffer), _first(source))
    read = source.buffer

    def kernel() -> None:
        variable[:] = read

    return kernel


def call_once(node: Node) -> Kernel:
    """Prepare CALL_ONCE: in the first run only, variables get the constants that a subgraph assigns."""
    node.expect(0, 0)
    table = node.options(_CALL_ONCE_OPTIONS)
    if table is None:
        raise GraphError("does not say which subgraph to call")
    pending = [
        (node.variables.named(variable, len(value), 0), value.cast("b"))
        for variable, value in node.file.assignments(table.integer(0, I32))
    ]

    def kernel() -> None:
        while pending:
            variable, value = pending.pop()
            variable[:] = value

    return kernel


def _handle(node: Node) -> int:
    handle = node.inputs[0]
    if handle is None:
        raise GraphError("has no handle of a variable")
    return handle.tensor.index


def _first(tensor: GraphTensor) -> int:
    quantization = tensor.tensor.quantization
    return 0 if quantization is None else quantization.zero_points[0]


def _nothing() -> None:
    """Do nothing."""
