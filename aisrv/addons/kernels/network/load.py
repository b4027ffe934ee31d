"""Conversion of a model file to an executable network.

Whatever the bytes are, the answer is a Network or a NetworkError: indices, shapes, sizes, quantization and
buffers are checked before a kernel is prepared, and `arena_bytes` bounds the memory that tensors take. What a
backend allocates for its own tables is its own matter; where the host has not that much, it is a NetworkError
too.
"""

from collections.abc import Callable
from typing import Final

from aisrv.addons.kernels.backend import KernelBackend, int16_kernels, join_kernels
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.kernels.network.errors import ArenaTooSmall, NetworkError, UnsupportedOperator
from aisrv.addons.kernels.network.folding import Folding, folded
from aisrv.addons.kernels.network.network import Network, PreparedOperator, PreparedSubgraph, nothing
from aisrv.addons.kernels.network.operator_node import OperatorNode
from aisrv.addons.kernels.network.operators import OPERATORS, prepare
from aisrv.addons.kernels.network.plan import plan_network
from aisrv.addons.kernels.network.tensors import NetworkMemory, Variables
from aisrv.addons.kernels.params import NO_SCRATCH
from aisrv.model import Model, ModelFileError, Operator, Subgraph
from aisrv.model.arena_plan import ArenaPlan
from aisrv.model.control_flow import starts, subgraphs
from aisrv.model.reader import read_model
from aisrv.model.schema import OPERATORS as BUILTIN_OPERATORS

LARGEST_ARENA: Final = 256 * 1024 * 1024
"""Bytes of tensors where the caller names no other bound."""

Planner = Callable[[Model, KernelBackend], ArenaPlan]
"""Places tensors: `plan_network`, or `plan_apart` for a network whose tensors can all be read after a run."""


def load_network(
    data: bytes,
    backend: KernelBackend,
    *,
    arena_bytes: int = LARGEST_ARENA,
    planner: Planner = plan_network,
) -> Network:
    """Load a model file and prepare all its kernels with a backend; NetworkError.

    ArenaTooSmall where arena and variables take more than `arena_bytes` together, UnsupportedOperator for an
    operator that there is no code for. `data` is the file; `planner` places its tensors in the arena.
    """
    try:
        model = read_model(data)
    except ModelFileError as error:
        raise NetworkError(str(error)) from error
    return prepare_network(model, backend, arena_bytes=arena_bytes, planner=planner)


def prepare_network(
    model: Model,
    backend: KernelBackend,
    *,
    arena_bytes: int = LARGEST_ARENA,
    planner: Planner = plan_network,
) -> Network:
    """Prepare all kernels of a model, as `load_network` does of a file.

    `planner` places its tensors in the arena. ArenaTooSmall as there.
    """
    every = subgraphs(model)
    _check_operators(every[0])
    _check_order(every[0])
    plan = planner(model, backend)
    variables = sum(tensor.nbytes for each in every for tensor in each.tensors if tensor.is_variable)
    if plan.head + variables > arena_bytes:
        raise ArenaTooSmall(plan.head + variables, arena_bytes)
    try:
        memory = NetworkMemory(model, plan)
        preparation = _Preparation(model, backend, memory, Variables(arena_bytes - plan.head - variables))
        operators = preparation.operators(0)
    except MemoryError as error:
        raise NetworkError(f"the host has not enough memory for the model: {error}") from None
    return Network(model, plan, preparation.tensors[: len(model.tensors)], operators)


class _Preparation:
    """The subgraphs of a model, whose operators are prepared one after the other, with their callees."""

    def __init__(
        self, model: Model, backend: KernelBackend, memory: NetworkMemory, variables: Variables
    ) -> None:
        self.tensors: Final = list(memory.tensors)
        """Tensors of all subgraphs; what follows from constants becomes one."""
        self._model: Final = model
        self._backend: Final = backend
        self._int16: Final = int16_kernels(backend) or NumpyBackend().int16
        self._scratch: Final = memory.scratch
        self._variables: Final = variables
        self._subgraphs: Final = subgraphs(model)
        self._starts: Final = starts(self._subgraphs)
        self._prepared: Final[dict[int, PreparedSubgraph]] = {}

    def operators(self, number: int) -> list[PreparedOperator]:
        """Prepare the operators of a subgraph."""
        subgraph, start = self._subgraphs[number], self._starts[number]
        folding, made = Folding(subgraph, start), []
        for operator in subgraph.operators:
            made.append(_prepare(self._node(number, operator), folding))
            for output in made[-1].outputs:
                self.tensors[output.tensor.index] = output
        return made

    def subgraph(self, number: int) -> PreparedSubgraph:
        """Prepare another subgraph once, however often it is called; plans refuse one that calls itself."""
        if number not in self._prepared:
            subgraph, start = self._subgraphs[number], self._starts[number]
            try:
                _check_operators(subgraph)
                _check_order(subgraph)
                kernels = [each.kernel for each in self.operators(number) if each.kernel is not nothing]
            except UnsupportedOperator as error:
                raise UnsupportedOperator(f"subgraph {number}: {error}") from error
            except NetworkError as error:
                raise NetworkError(f"subgraph {number}: {error}") from error
            self._prepared[number] = PreparedSubgraph(
                tuple(self.tensors[start + index] for index in subgraph.inputs),
                tuple(self.tensors[start + index] for index in subgraph.outputs),
                join_kernels(kernels),
            )
        return self._prepared[number]

    def _node(self, number: int, operator: Operator) -> OperatorNode:
        start, tensors = self._starts[number], self.tensors
        return OperatorNode(
            operator=operator,
            model=self._model,
            inputs=tuple(tensors[start + index] if index >= 0 else None for index in operator.inputs),
            outputs=tuple(tensors[start + index] for index in operator.outputs),
            backend=self._backend,
            int16=self._int16,
            variables=self._variables,
            subgraph=self.subgraph,
            scratch=self._scratch.get((number, operator.index), NO_SCRATCH),
        )


def _check_operators(model: Subgraph) -> None:
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


def _check_order(model: Subgraph) -> None:
    """Check that what is read has been written, and that no operator writes what it reads."""
    written = {tensor.index for tensor in model.tensors if tensor.is_constant or tensor.is_variable}
    for index in model.inputs:
        if model.tensors[index].is_constant:
            raise NetworkError(f"tensor {index} is an input of the model, and a constant")
    written.update(model.inputs)
    for operator in model.operators:
        where = f"operator {operator.index} ({operator.name})"
        for index in operator.inputs:
            if index >= 0 and index not in written:
                raise NetworkError(f"{where} reads tensor {index}, which nothing has written before")
        for index in operator.outputs:
            if model.tensors[index].is_constant:
                raise NetworkError(f"{where} writes tensor {index}, which is a constant")
            if index in operator.inputs or operator.outputs.count(index) > 1:
                raise NetworkError(f"{where} has tensor {index} in two roles: outputs must be tensors apart")
        written.update(operator.outputs)
    for index in model.outputs:
        if index not in written:
            raise NetworkError(f"nothing writes tensor {index}, an output of the model")


def _prepare(node: OperatorNode, folding: Folding) -> PreparedOperator:
    operator = node.operator
    try:
        kernel, outputs = prepare(node), node.outputs
        if folding.includes(node):
            kernel()
            kernel, outputs = nothing, folded(outputs)
    except UnsupportedOperator:
        raise
    except (KernelError, ModelFileError) as error:
        raise NetworkError(f"operator {operator.index} ({operator.name}): {error}") from error
    return PreparedOperator(
        operator, kernel, tuple(each for each in node.inputs if each is not None), outputs
    )
