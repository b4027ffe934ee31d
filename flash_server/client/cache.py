"""The cache in front of a window on the flash: its shape, and its counters.

The level 1 cache of the xcore.ai's software-defined memory has 8 lines of 32 bytes, is fully associative and
replaces by pseudo-LRU. Source: XMOS, "Using software-defined memory" (XTC Tools Guide, XM-014363-PC). True
LRU in place of pseudo-LRU is ours.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aisrv.xcore.tokens import WORD_BYTES
from flash_server.errors import FlashError


class WindowError(FlashError):
    """An address outside of the window, or a geometry that no cache has."""


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """The shape of a cache; all sizes are powers of two."""

    size: int = 256
    """Bytes in all."""
    ways: int = 8
    """Lines of a set."""
    line_bytes: int = 32
    """Bytes of a line, 4 at least."""

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("ways", self.ways), ("line", self.line_bytes)):
            if value < 1 or value & (value - 1):
                raise WindowError(f"cache {name} of {value}: it must be a power of two")
        if self.line_bytes < WORD_BYTES:
            raise WindowError(f"cache line of {self.line_bytes} bytes: it must hold a word of {WORD_BYTES}")
        if self.size < self.ways * self.line_bytes:
            raise WindowError(
                f"cache of {self.size} bytes: one set of {self.ways} ways has {self.ways * self.line_bytes}"
            )

    @property
    def sets(self) -> int:
        """Number of sets; line n of the segment goes into set n modulo this."""
        return self.size // (self.ways * self.line_bytes)


XCORE_AI_CACHE: Final = CacheGeometry()
"""The cache in front of software-defined memory: fully associative, 8 lines of 32 bytes."""


def _nothing() -> None:
    pass


class LineCache:
    """The lines of a cache without their bytes, for counting what a run touches."""

    __slots__ = ("_hits", "_line_bytes", "_misses", "_most", "_newest", "_read", "_sets", "_stop", "_ways")

    def __init__(
        self,
        geometry: CacheGeometry = XCORE_AI_CACHE,
        most: int | None = None,
        stop: Callable[[], None] = _nothing,
    ) -> None:
        """Start with an empty cache; `stop` is called once hits and misses are `most` or a few more."""
        self._most, self._stop = sys.maxsize if most is None else most, stop
        self._line_bytes = geometry.line_bytes
        self._ways = geometry.ways
        self._sets: list[dict[int, None]] = [{} for _ in range(geometry.sets)]  # each from the oldest use on
        self._newest = -1  # the line that was touched last
        self._hits = self._misses = self._read = 0

    @property
    def counters(self) -> "CacheCounters":
        counters = CacheCounters()
        self.count_into(counters)
        return counters

    def count_into(self, counters: "CacheCounters") -> None:
        """Write into counters what was counted up to now."""
        counters.hits, counters.misses, counters.bytes_read = self._hits, self._misses, self._read
        counters.bytes_filled = self._misses * self._line_bytes

    def touch(self, address: int, size: int) -> None:
        """Count an access: each line of it is a hit or a miss."""
        self._read += size
        first = address // self._line_bytes
        last = (address + size - 1) // self._line_bytes
        if first == self._newest == last:
            self._hits += 1
            return
        for number in range(first, last + 1):
            lines = self._sets[number % len(self._sets)]
            if number in lines:
                del lines[number]
                self._hits += 1
            else:
                self._misses += 1
                if len(lines) == self._ways:
                    del lines[next(iter(lines))]
            lines[number] = None
        self._newest = last
        if self._hits + self._misses >= self._most:
            self._stop()


@dataclass(slots=True)
class CacheCounters:
    """Counted since the window was opened. Every line that a read touches is a hit or a miss."""

    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    """Bytes that the task was given."""
    bytes_filled: int = 0
    """Bytes from the flash server."""

    def __str__(self) -> str:
        touched = max(self.hits + self.misses, 1)
        return (
            f"{self.hits:,} hits, {self.misses:,} misses ({100 * self.misses / touched:.1f} %), "
            f"{self.bytes_filled:,} bytes from flash"
        )
