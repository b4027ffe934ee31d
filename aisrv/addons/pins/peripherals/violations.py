"""Violations of a bus's rules: what a peripheral saw on its pins that the bus does not allow."""

import logging
from collections import deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from aisrv.xcore.clock import TICKS_PER_SECOND

logger = logging.getLogger(__name__)

MOST_KEPT: Final = 1000
"""Violations that a peripheral keeps, the latest."""
NANOSECONDS: Final = 10**9 // TICKS_PER_SECOND
"""Of a tick."""


class Violation(Struct, frozen=True):
    """One rule that was broken."""

    tick: int
    rule: str
    """Name of the rule, as the bus's standard has it: `tLOW`, `framing`."""
    text: str
    """Words on what was seen, and what is required."""

    def __str__(self) -> str:
        return f"tick {self.tick}: {self.rule}: {self.text}"


class Violations:
    """The violations of one peripheral: each is logged, and the latest are kept."""

    def __init__(self, name: str) -> None:
        """Create those of the peripheral of that name."""
        self._name = name
        self._kept: deque[Violation] = deque(maxlen=MOST_KEPT)

    def add(self, tick: int, rule: str, text: str) -> None:
        """Note a violation."""
        violation = Violation(tick, rule, text)
        self._kept.append(violation)
        logger.warning("%s: %s", self._name, violation)

    def check(self, tick: int, rule: str, what: str, ticks: int, least: float) -> None:
        """Note a time of so many ticks that is below the least, in nanoseconds."""
        if ticks * NANOSECONDS < least:
            self.add(tick, rule, f"{what} {ticks * NANOSECONDS} ns, {least:g} ns or more are required")

    @property
    def rules(self) -> list[str]:
        """The names of the rules that were broken, in order."""
        return [each.rule for each in self._kept]

    def __iter__(self) -> Iterator[Violation]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)
