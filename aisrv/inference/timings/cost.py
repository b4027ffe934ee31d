"""The cost of an operator: issue slots and lines of external memory, how far the figure is known, and why."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from aisrv.inference.timings.generation import Generation
    from aisrv.inference.timings.operator_tensors import OperatorTensors


class Basis(enum.Enum):
    """The basis of a figure, from the best to the least."""

    MEASURED = "measured"
    """Code, generation and shapes as in a published run."""
    CARRIED = "carried"
    """The same code as in a published run, of another generation."""
    EXTRAPOLATED = "extrapolated"
    """The same code with other shapes: what differs was counted in the assembly."""
    ESTIMATE = "estimate"
    """Nothing published of this operator."""


class Band(NamedTuple):
    """Between which factors of a figure the real one is expected."""

    low: float
    high: float


EXACT: Final = Band(1.0, 1.0)
"""Of a figure that was given."""


class Lines(Struct, frozen=True):
    """Lines of 32 bytes that are read from external memory, and how many they may be."""

    count: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def within(cls, count: float, band: Band) -> "Lines":
        """A number of lines with a band."""
        return cls(count, count * band.low, count * band.high)

    def plus(self, other: "Lines") -> "Lines":
        """The lines of both."""
        return Lines(self.count + other.count, self.low + other.low, self.high + other.high)


NO_LINES: Final = Lines()


class Cost(Struct, frozen=True):
    """What an operator takes of one thread."""

    slots: float
    """Issue slots."""
    basis: Basis
    """What the figure rests on."""
    band: Band
    """How far the slots may be off."""
    source: str
    """Where the figure is from."""
    form: str = ""
    """The form of the kernel, of a convolution."""
    shared: float = 0.0
    """What of `slots` is split among threads."""
    image: tuple[int, int] = (1, 1)
    """Height and width of the output, which is what is split."""
    layer_slots: float = 0.0
    """More slots where threads share the work."""
    before: "tuple[Cost, ...]" = ()
    """Costs of what goes before it, which one thread does: pads."""
    lines: Lines = NO_LINES
    """Lines of external memory."""

    def on_threads(self, threads: int) -> float:
        """Return the slots when `threads` threads share the work."""
        if threads == 1 or not self.shared:
            return self.slots
        return self.slots - self.shared * (1 - largest_share(*self.image, threads)) + self.layer_slots


class Conditions(NamedTuple):
    """What the cost of an operator goes by, besides its shapes."""

    generation: "Generation"
    external_parameters: bool = False
    """Whether constants lie in external memory."""
    external_arena: bool = False
    """Whether activations lie there."""
    is_plain: bool = False
    """Whether no converter made the file."""


CostRule = Callable[["OperatorTensors", Conditions], Cost | None]
"""Tells the cost of an operator, or None for shapes that the rule has no meaning for."""


def largest_share(height: int, width: int, threads: int) -> float:
    """Return the share of an image that the busiest thread computes; the others wait for it.

    Threads get whole rows, or whole columns: of the first of the two that divides evenly, else of the
    larger. With fewer than there are threads, some threads have nothing to do. Source: XMOS ai_tools,
    xformer/Utils/ThreadSupport.cpp.
    """
    if height % threads == 0 or width % threads == 0:
        return 1 / threads
    extent = max(height, width)
    return -(-extent // threads) / extent
