"""A long check as a value: what it tries, how often, and the function that does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[str, object]
"""What a check counted, by name; the numbers of a seed are the same at each run where time plays no part."""


@dataclass(frozen=True)
class Check:
    """A check that can be run in any size."""

    name: str
    does: str
    unit: str
    full: int
    """Size of `make soak`, in units."""
    small: int
    """Size of the everyday tests; 0 where they try how it works in another way."""
    minutes: float
    """That the full size takes on two busy cores of 2.5 GHz."""
    run: Callable[[int, int], Figures]
    """Takes a size and a seed. Raises AssertionError for what may not happen, with what makes it again."""
    needs: Callable[[], str] = lambda: ""
    """Why it cannot run here; empty where it can."""
