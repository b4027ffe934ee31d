"""The bound of windows: what their operators cost follows from the size of the file."""

from collections.abc import Sequence
from typing import Final

from aisrv.kernels.graph.errors import GraphError

_WIDEST: Final = 16


def bound_window(sizes: Sequence[int], taps: Sequence[int], dilations: Sequence[int]) -> None:
    """Refuse windows that lie mostly outside of the elements that they move over."""
    for extent, count, dilation in zip(sizes, taps, dilations, strict=True):
        reach = (count - 1) * dilation + 1
        if reach > _WIDEST * (extent + 1):
            raise GraphError(f"a window of {reach} is far larger than the {extent} elements below it")
