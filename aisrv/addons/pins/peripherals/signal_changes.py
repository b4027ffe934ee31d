"""The changes of the signals of a file."""

import itertools
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aisrv.xcore.ports.pin import HIGH, LOW, Z

LEVELS: Final = {"0": LOW, "1": HIGH, "z": Z, "Z": Z, "x": Z, "X": Z}
"""What is unknown in the file is not driven."""

Changes = tuple[tuple[int, int], ...]
"""Tick and level of each change."""


class SignalChanges:
    """The changes of a signal as a file has them: ticks that never go back, and levels."""

    def __init__(self) -> None:
        self._ticks = array("q")
        self._levels = bytearray()

    def add(self, tick: int, level: int) -> None:
        """Add a change; OverflowError for a tick beyond 64 bits."""
        self._ticks.append(tick)
        self._levels.append(level)

    def kept(self) -> Changes:
        """Return the changes without what lasts no tick, and without levels that are the same as before."""
        return tuple(self._kept())

    def _kept(self) -> Iterator[tuple[int, int]]:
        before: int | None = None
        following = itertools.chain(itertools.islice(self._ticks, 1, None), (None,))
        for tick, level, after in zip(self._ticks, self._levels, following, strict=False):
            if tick != after and level != before:
                yield tick, level
                before = level


Signals = Mapping[str, Callable[[], SignalChanges]]
"""By the name of each signal of a file, what reads its changes."""
