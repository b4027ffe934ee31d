"""Buffers of arcs: linear memory between a producer and a consumer.

A buffer never wraps. The producer writes behind the data; when no further frame of it would fit, ALIGN is
set, and the next read moves the rest to the base. Nothing moves while READ is 0.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes = npt.NDArray[np.uint8]

_ALIGN_BIT: Final = 1 << 22
_COLLISION_SHIFT: Final = 24


@dataclass(slots=True)
class FlowErrors:
    """Losses and fillings of an arc: events and bytes."""

    overflows: int = 0
    overflow_bytes: int = 0
    underflows: int = 0
    underflow_bytes: int = 0

    def count_overflow(self, size: int) -> None:
        self.overflows += 1
        self.overflow_bytes += size

    def count_underflow(self, size: int) -> None:
        self.underflows += 1
        self.underflow_bytes += size


class ArcBuffer:
    """A linear buffer: `buffer` is its memory, of which READ to WRITE is filled."""

    __slots__ = (
        "address",
        "align",
        "buffer",
        "bytes_read",
        "bytes_written",
        "collision",
        "consumer_frame",
        "errors",
        "lent",
        "number",
        "on_write",
        "producer_frame",
        "read",
        "size",
        "write",
    )

    def __init__(
        self, number: int, buffer: Bytes, producer_frame: int, consumer_frame: int, address: int = 0
    ) -> None:
        """Create an empty arc over its memory; frames are in bytes, at least 1."""
        self.number: Final = number
        self.producer_frame: Final = max(1, producer_frame)
        self.consumer_frame: Final = max(1, consumer_frame)
        self.address: Final = address
        """Address of the buffer in the graph's memory, as packed in the graph's words."""
        self.buffer = buffer
        self.size = len(buffer)
        self.read = 0
        self.write = 0
        self.align = False
        self.collision = 0
        """Core that runs the producer; 0 if none."""
        self.lent = False
        """Whether the memory is a driver's: then nothing is moved in it, and it is refilled when empty."""
        self.on_write: Callable[[Bytes], None] | None = None
        """Called with the bytes of each write."""
        self.errors: Final = FlowErrors()
        self.bytes_written = 0
        self.bytes_read = 0

    def reset(self) -> None:
        """Empty the arc and its counts."""
        self.read = self.write = self.collision = self.bytes_read = self.bytes_written = 0
        self.align = False
        self.errors.overflows = self.errors.overflow_bytes = 0
        self.errors.underflows = self.errors.underflow_bytes = 0

    @property
    def filled(self) -> int:
        """Bytes that the consumer may read."""
        return self.write - self.read

    @property
    def free(self) -> int:
        """Bytes that the producer may write."""
        return self.size - self.write

    @property
    def fill(self) -> float:
        """Filled part, 0 to 1."""
        return (self.write - self.read) / self.size if self.size else 0.0

    @property
    def has_frame(self) -> bool:
        return self.write - self.read >= self.consumer_frame

    @property
    def has_room(self) -> bool:
        return self.size - self.write >= self.producer_frame

    def readable(self) -> Bytes:
        """Return the filled bytes, as a view."""
        return self.buffer[self.read : self.write]

    def writable(self) -> Bytes:
        """Return the free bytes behind them, as a view."""
        return self.buffer[self.write : self.size]

    def produce(self, size: int) -> None:
        """Mark `size` bytes of `writable()` as written."""
        start = self.write
        self.write = start + size
        self.bytes_written += size
        self.align = not self.lent and self.size < self.write + self.producer_frame
        if self.on_write is not None:
            self.on_write(self.buffer[start : self.write])

    def consume(self, size: int) -> None:
        """Mark `size` bytes of `readable()` as read."""
        self.read += size
        self.bytes_read += size
        if self.lent:
            if self.read == self.write:
                self.read = self.write = 0
        elif self.align:
            self.realign()

    def realign(self) -> None:
        """Move the data to the base, if READ is behind it."""
        read = self.read
        if not read:
            return
        rest = self.write - read
        if rest:
            self.buffer[:rest] = self.buffer[read : self.write]
        self.read = 0
        self.write = rest
        self.align = self.size < rest + self.producer_frame

    def lend(self, buffer: Bytes, filled: int) -> None:
        """Take a driver's memory as the buffer, `filled` bytes of which are data."""
        self.buffer = buffer
        self.size = len(buffer)
        self.read = 0
        self.write = filled
        self.align = False
        self.lent = True
        self.bytes_written += filled
        if filled and self.on_write is not None:
            self.on_write(buffer[:filled])

    def words(self) -> tuple[int, int, int, int]:
        """Return words 0 to 3 as a graph has them in memory."""
        write = self.write | (_ALIGN_BIT if self.align else 0) | self.collision << _COLLISION_SHIFT
        return self.address, self.size, self.read, write


def jitter_for_size(size: int, producer_frame: int, consumer_frame: int) -> float | None:
    """Return a jitter with which an arc does not dead-lock: `size` >= p + c - gcd(p, c) bytes; or None."""
    producer, consumer = max(1, producer_frame), max(1, consumer_frame)
    needed = producer + consumer - math.gcd(producer, consumer)
    if size >= needed:
        return None
    return math.ceil(100 * needed / max(producer, consumer)) / 100
