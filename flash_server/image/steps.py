"""Long work in steps: a generator that yields when other tasks may have their turn."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work in progress: yields after each step, returns the result."""


def finish(steps: Steps[T]) -> T:
    """Do work in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
