"""Operators of a run of a model in device time: the run's time, shared out as predicted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aisrv.inference.timings import OperatorTime


class OperatorSlice(NamedTuple):
    """An operator's part of a run, in the units of its begin and end."""

    begin: int
    end: int
    name: str
    ticks: int
    """The prediction, for a tile with no more than five cores running."""
    basis: str


def share_out(begin: int, end: int, times: Sequence[OperatorTime]) -> Iterator[OperatorSlice]:
    """Yield the operators one behind the other, in proportion to their ticks; they fill the run exactly."""
    total = sum(each.ticks for each in times)
    if not total:
        return
    so_far, at = 0, begin
    for each in times:
        so_far += each.ticks
        until = begin + (end - begin) * so_far // total
        yield OperatorSlice(at, until, each.name, each.ticks, each.basis.value)
        at = until
