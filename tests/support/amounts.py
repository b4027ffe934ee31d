"""How much runs every day, and how much in CI and with `make soak`.

- A test with the mark `in_full` runs a share of its tries every day, and all of them with `pytest --in-full`,
  as `make soak` does.
- A test whose tries are `in_ci` makes a share of them every day, and all where `long` tests run.
- A test with the mark `long` does not run every day: a cheaper one shows the same, or what it starts takes
  many seconds, as a cluster or a virtual machine does. `pytest --long` runs it, as `make long` and CI do.
- Of the many cases of a test, every day has a `share`.
"""

import enum
from collections.abc import Container, Iterable, Sequence
from typing import Final, TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")

LONG_MARK: Final = "long"


class Chosen(enum.IntEnum):
    """What a run of pytest has been asked for."""

    EVERY_DAY = 0
    LONG = 1
    IN_FULL = 2


class _Run:
    """The choice of this process: tests are made by it as their modules are imported."""

    chosen = Chosen.EVERY_DAY


def choose(chosen: Chosen) -> None:
    """Take what this run of pytest has been asked for, before any test is collected."""
    _Run.chosen = chosen


def is_long() -> bool:
    """Whether tests with the mark `long` run, too."""
    return _Run.chosen >= Chosen.LONG


def is_in_full() -> bool:
    """Whether tests with the mark `in_full` make all of their tries."""
    return _Run.chosen == Chosen.IN_FULL


def without_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with the mark `long`; pytest counts them as deselected."""
    left_out = [item for item in items if item.get_closest_marker(LONG_MARK)]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker(LONG_MARK)]
        config.hook.pytest_deselected(items=left_out)


def amount(full: int, *, every_day: int) -> int:
    """Return how many tries a test makes."""
    return full if is_in_full() else every_day


def in_ci(full: int, *, every_day: int) -> int:
    """Return how many tries a test makes that makes all of them where `long` tests run."""
    return full if is_long() else every_day


def some(values: Sequence[T], *, every_day: int) -> Sequence[T]:
    """Return the values that a test runs with: every day the first ones."""
    return values if is_in_full() else values[:every_day]


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
