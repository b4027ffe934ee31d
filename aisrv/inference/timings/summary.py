"""The summary that the firmware prints after a run: each operator, the total, and each class of operators.

Content and order as `print_profiler_summary` of XMOS lib_tflite_micro has them: a line for each operator, the
total in ticks, and a line with the share of each class. Times below a millisecond keep their digits here,
each has its band, and an estimated one, or a class with one, is marked.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from aisrv.inference.timings.cost import Basis
from aisrv.inference.timings.device_model import OperatorTime
from aisrv.inference.timings.total import Total, sum_of

NOTED_SHARE: Final = 0.1
"""Share of estimates in a total above which it is noted."""


class OperatorClass(Struct, frozen=True):
    """All operators of one name."""

    name: str
    count: int
    ticks: int
    low: int
    high: int
    share: float
    has_estimates: bool


def estimate_share(times: Sequence[OperatorTime]) -> float:
    """Return the part of the total that rests on estimates, 0 to 1."""
    estimated = sum(time.ticks for time in times if time.basis is Basis.ESTIMATE)
    return estimated / sum(time.ticks for time in times) if estimated else 0.0


def estimate_note(times: Sequence[OperatorTime], total: Total | None = None) -> str:
    """Describe the band of a total that rests largely on estimates; empty up to NOTED_SHARE."""
    share = estimate_share(times)
    if share <= NOTED_SHARE:
        return ""
    return (
        f"One inference is predicted to take {total or sum_of(times)}: {100 * share:.1f} % are estimates.\n"
    )


def operator_classes(times: Sequence[OperatorTime]) -> tuple[OperatorClass, ...]:
    """Sum up the operators of each name, the largest sum first, equal ones in order of execution."""
    total = sum(time.ticks for time in times)
    members: dict[str, list[OperatorTime]] = {}
    for time in times:
        members.setdefault(time.name, []).append(time)
    classes = [
        OperatorClass(
            name,
            len(group),
            ticks := sum(time.ticks for time in group),
            sum(time.low for time in group),
            sum(time.high for time in group),
            ticks / total if total else 0.0,
            any(time.basis is Basis.ESTIMATE for time in group),
        )
        for name, group in members.items()
    ]
    return tuple(sorted(classes, key=lambda each: -each.ticks))


def profiler_summary(times: Sequence[OperatorTime], total: Total | None = None) -> str:
    """Return one inference with its band, each operator's time, and the share of each class, largest first.

    Times are in ticks of the reference clock and in real ms.
    """
    total = total or sum_of(times)
    lines = [f"One inference takes {total}", "", "Operators"]
    lines += [
        f"{time.index:5}  {_columns(time.name, time, total)}{_mark(time.basis is Basis.ESTIMATE)}"
        for time in times
    ]
    lines += [f"{'Total':5}  {_columns('', total, total)}", "", "By operator class"]
    for each in operator_classes(times):
        share = f"{100 * each.share:6.2f} %"
        lines.append(f"{each.count:5}  {_columns(each.name, each, total)} {share}{_mark(each.has_estimates)}")
    return "\n".join(lines) + "\n"


def _columns(name: str, each: OperatorTime | OperatorClass | Total, total: Total) -> str:
    low, high = total.in_ms(each.low), total.in_ms(each.high)
    return f"{name:28} {each.ticks:12} {total.in_ms(each.ticks):10.3f} ms ({low:.3f} to {high:.3f})"


def _mark(is_estimate: bool) -> str:
    return "  estimate" if is_estimate else ""
