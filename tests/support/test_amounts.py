"""What does not run every day."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.amounts import without_long


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
