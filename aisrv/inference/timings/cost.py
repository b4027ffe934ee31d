"""The cost of an operator: issue slots and lines of external memory, with their band and source."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from aisrv.inference.timings.generation import Generation
    from aisrv.inference.timings.operator_tensors import OperatorTensors


class Basis(enum.Enum):
    """Basis of a figure, from the best to the least."""

    MEASURED = "measured"
    """Code, generation and shapes as in a published run."""
    CARRIED = "carried"
    """The same code as in a published run, of another generation."""
    EXTRAPOLATED = "extrapolated"
    """The same code with other shapes: the differences were counted in the assembly."""
    ESTIMATE = "estimate"
    """A guess: nothing is published of this operator."""


class Band(NamedTuple):
    """Factors of a figure between which the real one is expected."""

    low: float
    high: float


EXACT: Final = Band(1.0, 1.0)
"""Band of a figure that was given."""


class Lines(Struct, frozen=True):
    """Lines of 32 bytes that are read from external memory, and how many they may be."""

    count: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def within(cls, count: float, band: Band) -> "Lines":
        return cls(count, count * band.low, count * band.high)

    def plus(self, other: "Lines") -> "Lines":
        return Lines(self.count + other.count, self.low + other.low, self.high + other.high)


NO_LINES: Final = Lines()


class Cost(Struct, frozen=True):
    """Cost of an operator on one thread."""

    slots: float
    basis: Basis
    band: Band
    source: str
    form: str = ""
    shared: float = 0.0
    """Part of `slots` that is split among threads."""
    image: tuple[int, int] = (1, 1)
    """Height and width of the output, which is what is split."""
    layer_slots: float = 0.0
    """More slots if threads share the work."""
    before: "tuple[Cost, ...]" = ()
    """Costs of what goes before it, which one thread does: pads."""
    lines: Lines = NO_LINES

    def on_threads(self, threads: int) -> float:
        """Return the slots if `threads` threads share the work."""
        if threads == 1 or not self.shared:
            return self.slots
        return self.slots - self.shared * (1 - largest_share(*self.image, threads)) + self.layer_slots


class Conditions(NamedTuple):
    """Conditions of an operator's cost besides its shapes."""

    generation: "Generation"
    external_parameters: bool = False
    """Whether constants lie in external memory."""
    external_arena: bool = False
    """Whether activations lie there."""
    is_plain: bool = False
    """Whether no converter made the file."""


CostRule = Callable[["OperatorTensors", Conditions], Cost | None]
"""Computes the cost of an operator, or None for shapes without a meaning."""


def largest_share(height: int, width: int, threads: int) -> float:
    """Return the share of an image that the busiest thread computes; the others wait for it.

    Threads get whole rows, or whole columns: of the first of the two that divides evenly, else of the larger.
    With fewer than there are threads, some threads have nothing to do. Source: XMOS ai_tools,
    xformer/Utils/ThreadSupport.cpp.
    """
    if height % threads == 0 or width % threads == 0:
        return 1 / threads
    extent = max(height, width)
    return -(-extent // threads) / extent
