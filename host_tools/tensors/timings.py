"""Times of a model's operators in its last inference."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from aisrv.protocol.commands import TICKS_PER_SECOND

SHOWN: Final = 3
"""Operators in the text of timings, the slowest."""


class OperatorTime(NamedTuple):
    """An operator's name, empty where it is not known, and how long it took."""

    name: str
    ticks: int

    @property
    def microseconds(self) -> float:
        """How long it took, in microseconds."""
        return microseconds(self.ticks)


class Timings(tuple[int, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Ticks of 10 ns for each operator, in execution order; `operators` has their names, too."""

    names: tuple[str, ...]
    """One for each operator, or none at all."""

    def __new__(cls, ticks: Iterable[int], names: Sequence[str] = ()) -> "Timings":
        """Names that are not as many as the times belong to another model, and are dropped."""
        timings = super().__new__(cls, ticks)
        timings.names = tuple(names) if len(names) == len(timings) else ()
        return timings

    @property
    def operators(self) -> tuple[OperatorTime, ...]:
        """Each operator with its name."""
        names = self.names or ("",) * len(self)
        return tuple(map(OperatorTime, names, self))

    @property
    def total(self) -> int:
        """Ticks of all operators."""
        return sum(self)

    @property
    def microseconds(self) -> float:
        """Microseconds of all operators."""
        return microseconds(self.total)

    def __repr__(self) -> str:
        slowest = sorted(enumerate(self.operators), key=lambda each: -each[1].ticks)[:SHOWN]
        shown = ", ".join(f"{one.name or f'#{number}'} {one.microseconds:.2f}" for number, one in slowest)
        return f"<Timings of {len(self)} operators: {self.microseconds:.2f} µs{'; ' if shown else ''}{shown}>"


def microseconds(ticks: int) -> float:
    """Convert ticks of the reference clock to microseconds."""
    return ticks * 1e6 / TICKS_PER_SECOND
