"""The order in which TensorFlow Lite Micro plans a model's subgraphs, with the life of each tensor.

Tensors of all subgraphs are numbered one after the other, those of the main one first. An operator that calls
subgraphs is a step, each of the calls is one, and then come the steps of the subgraph. Source:
`micro_allocation_info.cc`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from aisrv.model.errors import ModelFileError
from aisrv.model.values import Model, Operator, Subgraph, Tensor

CALLS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "IF": ("then_subgraph_index", "else_subgraph_index"),
        "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
        "CALL_ONCE": ("init_subgraph_index",),
    }
)
"""Options in which operators name subgraphs."""

_MOST_STEPS: Final = 100_000


class Step(NamedTuple):
    """An operator of a subgraph, or the call of a subgraph."""

    subgraph: int
    operator: Operator | None


class Life(NamedTuple):
    """The first and the last step of something."""

    first: int
    last: int


def subgraphs(model: Model) -> tuple[Subgraph, ...]:
    """Return all subgraphs, the main one first."""
    main = Subgraph(model.tensors, model.operators, model.inputs, model.outputs)
    return (main, *model.other_subgraphs)


def all_tensors(model: Model) -> tuple[Tensor, ...]:
    """Return the tensors of all subgraphs, with the numbers that a plan gives them."""
    tensors = [tensor for each in subgraphs(model) for tensor in each.tensors]
    return tuple(replace(tensor, index=number) for number, tensor in enumerate(tensors))


def called(model: Model, operator: Operator) -> tuple[int, ...]:
    """Return the subgraphs that an operator calls. Raises ModelFileError for an unknown one."""
    if operator.is_custom or operator.name not in CALLS:
        return ()
    numbers = tuple(operator.options.integer(name) for name in CALLS[operator.name])
    for number in numbers:
        if not 0 < number <= len(model.other_subgraphs):
            raise ModelFileError(
                f"operator {operator.index} ({operator.name}): unknown subgraph {number} to call: "
                f"the file has {len(model.other_subgraphs) + 1}"
            )
    return numbers


class Walk:
    """The steps of a model, and the lives of its tensors; -1 for what is never there."""

    def __init__(self, model: Model) -> None:
        """Walk through all calls; ModelFileError if subgraphs call each other, or far too many."""
        self._model: Final = model
        self._subgraphs: Final = subgraphs(model)
        self._starts: Final = starts(self._subgraphs)
        count = sum(len(each.tensors) for each in self._subgraphs)
        self.first: Final = [-1] * count
        self.last: Final = [-1] * count
        self.operators: Final[dict[tuple[int, int], Life]] = {}
        """Steps of each operator, by its subgraph and its own number."""
        self.steps: Final[list[Step]] = []
        """Steps 1, 2, ..."""
        self._inside: Final[list[int]] = []
        self._visit(0)

    def _visit(self, number: int) -> None:
        if number in self._inside:
            raise ModelFileError(f"subgraph {number} calls itself")
        self._inside.append(number)
        subgraph = self._subgraphs[number]
        self._create(number, subgraph.inputs)
        for operator in subgraph.operators:
            first = self._step(Step(number, operator))
            self._create(number, operator.outputs)
            for each in called(self._model, operator):
                self._step(Step(each, None))
                self._visit(each)
            self._use(number, operator.inputs)
            self._use(number, operator.outputs)
            life = self.operators.get((number, operator.index))
            self.operators[number, operator.index] = Life(life.first if life else first, len(self.steps))
        self._create(number, subgraph.outputs)
        self._inside.pop()

    def _step(self, step: Step) -> int:
        if len(self.steps) == _MOST_STEPS:
            raise ModelFileError(f"subgraphs call each other more than {_MOST_STEPS:,} times")
        self.steps.append(step)
        return len(self.steps)

    def _create(self, number: int, tensors: Sequence[int]) -> None:
        for tensor in tensors:
            place = self._starts[number] + tensor
            if self.first[place] < 0:
                self.first[place] = len(self.steps)
        self._use(number, tensors)

    def _use(self, number: int, tensors: Sequence[int]) -> None:
        for tensor in tensors:
            if tensor >= 0:
                self.last[self._starts[number] + tensor] = len(self.steps)


def starts(each: Sequence[Subgraph]) -> list[int]:
    """Return the number of the first tensor of each subgraph."""
    found = [0]
    for subgraph in each:
        found.append(found[-1] + len(subgraph.tensors))
    return found


def flat(model: Model) -> Model:
    """Return a model of all tensors, whose operators are the steps, for drawings of a plan."""
    if not model.other_subgraphs:
        return model
    operators = tuple(
        Operator(index, f"SUBGRAPH {step.subgraph}" if step.operator is None else step.operator.name, (), ())
        for index, step in enumerate(Walk(model).steps)
    )
    return replace(model, tensors=all_tensors(model), operators=operators, other_subgraphs=())
