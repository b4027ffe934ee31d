"""An executable network: prepared kernels in order, over tensors in memory.

    network = load_network(data, backend)
    network.inputs[0][:] = picture
    network.invoke()
    scores = bytes(network.outputs[0])

All the checking is done at load, and what follows from constants alone is computed there. A run is a loop
over kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.addons.kernels.backend import Kernel, join_kernels
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import Model, Operator
from aisrv.model.arena_plan import ArenaPlan


def nothing() -> None:
    """Do nothing: the kernel of an operator that a run leaves out."""


@dataclass(frozen=True, slots=True)
class PreparedOperator:
    """An operator with its kernel, and its tensors in memory."""

    operator: Operator
    kernel: Kernel
    inputs: tuple[NetworkTensor, ...]
    """Those that are there, in the model's order."""
    outputs: tuple[NetworkTensor, ...]

    def __str__(self) -> str:
        """Name it as messages do."""
        return f"operator {self.operator.index} ({self.operator.name})"


@dataclass(frozen=True, slots=True)
class PreparedSubgraph:
    """A subgraph that operators of control flow run: its kernels, between inputs and outputs in memory."""

    inputs: tuple[NetworkTensor, ...]
    outputs: tuple[NetworkTensor, ...]
    kernels: tuple[Kernel, ...]


class Network:
    """One model, ready to run. A run may overwrite its inputs where the plan has their memory reused."""

    def __init__(
        self,
        model: Model,
        plan: ArenaPlan,
        tensors: Sequence[NetworkTensor],
        operators: Sequence[PreparedOperator],
    ) -> None:
        """Take prepared operators in execution order; `tensors` are all of the model's."""
        self.model: Final = model
        self.plan: Final = plan
        self.tensors: Final = tuple(tensors)
        self.operators: Final = tuple(operators)
        self.inputs: Final = tuple(self.tensors[index].buffer for index in model.inputs)
        """The bytes of each input, format "b": write them before every run."""
        self.outputs: Final = tuple(self.tensors[index].buffer for index in model.outputs)
        """The bytes of each output, format "b": they hold the result of the last run."""
        self.kernels: Final = join_kernels(
            [operator.kernel for operator in self.operators if operator.kernel is not nothing]
        )

    def invoke(self) -> None:
        """Run the model once."""
        for kernel in self.kernels:
            kernel()
