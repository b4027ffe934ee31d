"""Lines are found once each, also while the oldest make room."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.web.host.log_lines import new_lines
from aisrv.engine.debug_log import DebugLog
from host_tools.exchange.usb import log_text


@given(st.lists(st.integers(0, 12), max_size=20))
def test_each_line_of_a_log_that_is_read_often_enough_is_found_once(bursts: list[int]) -> None:
    log, seen, written, number = DebugLog(logging.getLogger("test")), [""][:0], [""][:0], 0
    found: list[str] = []
    for burst in bursts:
        for _ in range(burst):
            number += 1
            written.append(f"line {number} {'x' * (number % 90)}")
            log.write(written[-1])
        lines = log_text(bytes(log)).splitlines()
        found += new_lines(seen, lines)
        seen = lines
    assert found == written


def test_a_log_that_has_nothing_of_the_old_one_is_new() -> None:
    assert new_lines(["a", "b"], ["c", "d"]) == ["c", "d"]


def test_a_log_that_is_the_same_has_nothing_new() -> None:
    assert list(new_lines(["a", "b"], ["a", "b"])) == []
