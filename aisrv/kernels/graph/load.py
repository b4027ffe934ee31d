"""From a model file to an executable graph.

Whatever the bytes are, the answer is a Graph or a GraphError: indices, shapes, sizes, quantization and
buffers are checked before a kernel is prepared, and `arena_bytes` bounds the memory that tensors take. What a
backend allocates for its own tables is its own matter; where the host has not that much, it is a GraphError
too.
"""

from collections.abc import Callable, Sequence
from typing import Final

from aisrv.kernels.backend import Int16Kernels, KernelBackend, int16_kernels
from aisrv.kernels.backends.numpy.backend import NumpyBackend
from aisrv.kernels.backends.numpy.requantize import Workspace
from aisrv.kernels.errors import KernelError
from aisrv.kernels.graph.errors import ArenaTooSmall, GraphError, UnsupportedOperator
from aisrv.kernels.graph.folding import Folding, folded
from aisrv.kernels.graph.graph import Graph, GraphOperator, nothing
from aisrv.kernels.graph.operator_node import OperatorNode
from aisrv.kernels.graph.operators import OPERATORS, prepare
from aisrv.kernels.graph.plan import plan_graph
from aisrv.kernels.graph.tensors import GraphMemory, GraphTensor
from aisrv.kernels.graph.variables import Variables
from aisrv.kernels.params import NO_SCRATCH, Buffer
from aisrv.model import Model, ModelFileError, Operator
from aisrv.model.arena_plan import ArenaPlan
from aisrv.model.reader import read_model
from aisrv.model.schema import OPERATORS as BUILTIN_OPERATORS

LARGEST_ARENA: Final = 256 * 1024 * 1024
"""Bytes of tensors where the caller names no other bound."""

Planner = Callable[[Model, KernelBackend], ArenaPlan]
"""Places tensors: `plan_graph`, or `plan_apart` for a graph whose tensors can all be read after a run."""


def load_graph(
    data: bytes,
    backend: KernelBackend,
    *,
    arena_bytes: int = LARGEST_ARENA,
    planner: Planner = plan_graph,
) -> Graph:
    """Load a model file and prepare all its kernels with a backend; GraphError.

    ArenaTooSmall where arena and variables take more than `arena_bytes` together, UnsupportedOperator for an
    operator that there is no code for. `data` is the file; `planner` places its tensors in the arena.
    """
    try:
        model = read_model(data)
    except ModelFileError as error:
        raise GraphError(str(error)) from error
    return prepare_graph(model, backend, arena_bytes=arena_bytes, planner=planner)


def prepare_graph(
    model: Model,
    backend: KernelBackend,
    *,
    arena_bytes: int = LARGEST_ARENA,
    planner: Planner = plan_graph,
) -> Graph:
    """Prepare all kernels of a model, as `load_graph` does of a file.

    `planner` places its tensors in the arena. ArenaTooSmall as there.
    """
    _check_operators(model)
    _check_order(model)
    plan = planner(model, backend)
    variables = sum(tensor.nbytes for tensor in model.tensors if tensor.is_variable)
    if plan.head + variables > arena_bytes:
        raise ArenaTooSmall(plan.head + variables, arena_bytes)
    try:
        memory = GraphMemory(model, plan)
        resources = Variables(arena_bytes - plan.head - variables)
        int16 = int16_kernels(backend) or NumpyBackend().int16
        tensors, folding, workspace = list(memory.tensors), Folding(model), Workspace()
        operators = []
        for operator in model.operators:
            scratch = memory.scratch.get(operator.index, NO_SCRATCH)
            node = _node(model, operator, backend, int16, tensors, resources, workspace, scratch)
            operators.append(_prepare(node, folding))
            for output in operators[-1].outputs:
                tensors[output.tensor.index] = output
    except MemoryError as error:
        raise GraphError(f"the host has not enough memory for the model: {error}") from None
    return Graph(model, plan, tensors, operators)


def _check_operators(model: Model) -> None:
    for operator in model.operators:
        if operator.is_custom:
            raise UnsupportedOperator(
                f"operator {operator.index} is custom, {operator.name!r} (32), and has no kernel here"
            )
        if operator.name not in OPERATORS:
            raise UnsupportedOperator(
                f"operator {operator.index} is {operator.name} (builtin operator "
                f"{BUILTIN_OPERATORS.index(operator.name)}), and has no kernel here"
            )


def _check_order(model: Model) -> None:
    """Check that what is read has been written, and that no operator writes what it reads."""
    written = {tensor.index for tensor in model.tensors if tensor.is_constant or tensor.is_variable}
    for index in model.inputs:
        if model.tensors[index].is_constant:
            raise GraphError(f"tensor {index} is an input of the model, and a constant")
    written.update(model.inputs)
    for operator in model.operators:
        where = f"operator {operator.index} ({operator.name})"
        for index in operator.inputs:
            if index >= 0 and index not in written:
                raise GraphError(f"{where} reads tensor {index}, which nothing has written before")
        for index in operator.outputs:
            if model.tensors[index].is_constant:
                raise GraphError(f"{where} writes tensor {index}, which is a constant")
            if index in operator.inputs or operator.outputs.count(index) > 1:
                raise GraphError(f"{where} has tensor {index} in two roles: outputs must be tensors apart")
        written.update(operator.outputs)
    for index in model.outputs:
        if index not in written:
            raise GraphError(f"nothing writes tensor {index}, an output of the model")


def _node(
    model: Model,
    operator: Operator,
    backend: KernelBackend,
    int16: Int16Kernels,
    tensors: Sequence[GraphTensor],
    variables: Variables,
    workspace: Workspace,
    scratch: Buffer,
) -> OperatorNode:
    return OperatorNode(
        operator=operator,
        model=model,
        inputs=tuple(tensors[index] if index >= 0 else None for index in operator.inputs),
        outputs=tuple(tensors[index] for index in operator.outputs),
        backend=backend,
        int16=int16,
        variables=variables,
        workspace=workspace,
        scratch=scratch,
    )


def _prepare(node: OperatorNode, folding: Folding) -> GraphOperator:
    operator = node.operator
    try:
        kernel, outputs = prepare(node), node.outputs
        if folding.includes(node):
            kernel()
            kernel, outputs = nothing, folded(outputs)
    except (KernelError, ModelFileError) as error:
        raise GraphError(f"operator {operator.index} ({operator.name}): {error}") from error
    return GraphOperator(operator, kernel, tuple(each for each in node.inputs if each is not None), outputs)
