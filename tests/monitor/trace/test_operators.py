"""Operators share the time of a run as predicted."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aisrv import digits
from aisrv.inference.timings import DeviceModel, OperatorTime
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model.relocatable.model import read_loadable
from aisrv.monitor.trace.operators import share_out

TIMES = estimate_times(DeviceModel(), read_loadable(digits.model_bytes()))


def times(*ticks: int) -> list[OperatorTime]:
    return [replace(TIMES[0], ticks=each) for each in ticks]


def test_a_run_of_the_predicted_time_has_each_operator_its_ticks() -> None:
    found = list(share_out(100, 100 + sum(each.ticks for each in TIMES), TIMES))
    assert [each.end - each.begin for each in found] == [each.ticks for each in TIMES]
    assert [(each.name, each.ticks, each.basis) for each in found] == [
        (each.name, each.ticks, each.basis.value) for each in TIMES
    ]


def test_on_a_full_tile_all_take_longer() -> None:
    found = [(each.begin, each.end, each.ticks) for each in share_out(0, 12, times(2, 3, 0, 5))]
    assert found == [(0, 2, 2), (2, 6, 3), (6, 6, 0), (6, 12, 5)]


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.lists(st.integers(0, 1 << 30), max_size=20))
def test_operators_fill_the_run(begin: int, length: int, ticks: list[int]) -> None:
    found = list(share_out(begin, begin + length, times(*ticks)))
    if sum(ticks):
        edges = [begin, *(each.end for each in found)]
        assert [each.begin for each in found] == edges[:-1]
        assert edges[-1] == begin + length
    else:
        assert found == []
