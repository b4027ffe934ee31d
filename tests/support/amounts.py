"""How much of a test runs: a share every day, all of it with `make soak`, which sets AISRV_IN_FULL.

A test that asks has the mark `in_full`, by which `make soak` chooses it.
"""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

IN_FULL: Final = bool(os.environ.get("AISRV_IN_FULL"))


def amount(full: int, *, every_day: int) -> int:
    """Return how many tries a test makes."""
    return full if IN_FULL else every_day


def some(values: Sequence[T], *, every_day: int) -> Sequence[T]:
    """Return the values that a test runs with: every day the first ones."""
    return values if IN_FULL else values[:every_day]
