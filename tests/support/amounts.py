"""How much runs every day, and how much in CI and with `make soak`.

- A test with the mark `in_full` runs a share of its tries every day, and all of them with `make soak`,
  which sets AISRV_IN_FULL.
- A test whose tries are `in_ci` makes a share of them every day, and all where `long` tests run.
- A test with the mark `long` does not run every day: a cheaper one shows the same, or what it starts takes
  many seconds, as a cluster or a virtual machine does. `make long` sets AISRV_LONG, and CI runs it on each
  change.
- Of the many cases of a test, every day has a `share`.
"""

import os
from collections.abc import Container, Iterable, Sequence
from typing import Final, TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")

IN_FULL: Final = bool(os.environ.get("AISRV_IN_FULL"))
LONG: Final = IN_FULL or bool(os.environ.get("AISRV_LONG"))
LONG_MARK: Final = "long"


def without_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with the mark `long`; pytest counts them as deselected."""
    left_out = [item for item in items if item.get_closest_marker(LONG_MARK)]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker(LONG_MARK)]
        config.hook.pytest_deselected(items=left_out)


def amount(full: int, *, every_day: int) -> int:
    """Return how many tries a test makes."""
    return full if IN_FULL else every_day


def in_ci(full: int, *, every_day: int) -> int:
    """Return how many tries a test makes that makes all of them where `long` tests run."""
    return full if LONG else every_day


def some(values: Sequence[T], *, every_day: int) -> Sequence[T]:
    """Return the values that a test runs with: every day the first ones."""
    return values if IN_FULL else values[:every_day]


def share(
    values: Iterable[T | ParameterSet], *, one_in: int, also: Container[T] = ()
) -> list[T | ParameterSet]:
    """Return the cases of a test; every day has the first, the last, each so many-th and those in `also`."""
    cases = list(values)
    return [
        each if number % one_in == 0 or number == len(cases) - 1 or each in also else _long(each, one_in)
        for number, each in enumerate(cases)
    ]


def _long(case: object, one_in: int) -> ParameterSet:
    mark = pytest.mark.long(f"one in {one_in} runs every day")
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=[*case.marks, mark], id=case.id)
    return pytest.param(case, marks=mark)
