"""The cost of an operator, and the basis of the figure."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from aisrv.inference.timings.operator_tensors import OperatorTensors

FITTED_CLOCK_MHZ: Final = 600
"""Core clock that the costs hold for."""


class Basis(enum.Enum):
    """The basis of a figure."""

    FITTED = "fitted"
    """A formula that reproduces published figures of this operator."""
    ESTIMATE = "estimate"
    """A guess from the size of the tensors, or from another operator's figures."""


class Cost(Struct, frozen=True):
    """Ticks of 10 ns on one thread at FITTED_CLOCK_MHZ; `source` tells where the figure is from."""

    ticks: float
    basis: Basis
    source: str
    shared: float = 0.0
    """What of `ticks` is split among threads."""
    image: tuple[int, int] = (1, 1)
    """Height and width of the output, which is what is split."""

    def on_threads(self, threads: int) -> float:
        """Return the ticks when `threads` threads share the work."""
        return self.ticks - self.shared * (1 - largest_share(*self.image, threads))


CostRule = Callable[["OperatorTensors"], Cost | None]
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
