"""What does not run every day."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.amounts import share, without_long


def test_long_tests_are_left_out_and_counted() -> None:
    left_out: list[pytest.Item] = []
    config: Any = SimpleNamespace(
        hook=SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    )
    short: Any = SimpleNamespace(get_closest_marker=lambda _: None)
    long: Any = SimpleNamespace(get_closest_marker={"long": pytest.mark.long("it boots").mark}.get)
    items = [short, long, short]
    without_long(config, items)
    assert (items, left_out) == ([short, short], [long])


@pytest.mark.parametrize(
    ("count", "every_day"),
    [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 2]), (4, [0, 3]), (5, [0, 3, 4]), (7, [0, 3, 6])],
)
def test_a_share_has_the_first_case_the_last_one_and_those_between(count: int, every_day: list[int]) -> None:
    cases = share(range(count), one_in=3)
    assert [each for each in cases if isinstance(each, int)] == every_day
    long = [each for each in cases if not isinstance(each, int)]
    assert [each.values for each in long] == [(each,) for each in range(count) if each not in every_day]
    assert all([mark.name for mark in each.marks] == ["long"] for each in long)


def test_a_share_has_the_cases_that_every_day_needs() -> None:
    cases = share(range(8), one_in=4, also=(2, 5))
    assert [each for each in cases if isinstance(each, int)] == [0, 2, 4, 5, 7]


def test_a_share_of_cases_that_have_names_and_marks_keeps_them() -> None:
    named = [
        pytest.param(number, number, marks=pytest.mark.in_full, id=f"case {number}") for number in range(3)
    ]
    first, long, last = share(named, one_in=3)
    assert (first, last) == (named[0], named[2])
    assert (long.values, long.id) == ((1, 1), "case 1")
    assert [mark.name for mark in long.marks] == ["in_full", "long"]
