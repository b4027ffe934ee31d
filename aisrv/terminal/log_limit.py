"""Limit of equal log lines of one peer: a burst, then a rate, with the rest counted."""

import logging
from collections import OrderedDict
from contextvars import ContextVar
from typing import Final

import trio

BURST: Final = 100
"""Lines of one kind that a peer may cause at once."""
LINES_PER_SECOND: Final = 10.0
"""Lines of one kind that a peer may cause in the long run."""
QUIET_SECONDS: Final = 5.0
"""Time after which a count of suppressed lines is logged if no line of the kind comes to tell it."""
KINDS_LIMIT: Final = 1024
"""Kinds of lines that are remembered; the least recently seen is forgotten first."""

log_peer: Final[ContextVar[str | None]] = ContextVar("log_peer", default=None)
"""Peer that the running task serves: its address without the port, which changes each time."""

_Kind = tuple[str, str, object]


class LogLimit:
    """Counts lines by kind and peer: the logger, the text before its arguments are put in, and the peer.

    Outside of a peer's connection the running task stands for the peer: a device has tasks of its own.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[_Kind, _Bucket] = OrderedDict()

    def admit(self, record: logging.LogRecord) -> int | None:
        """Return the number of suppressed lines of its kind before this one; None to suppress it, too."""
        kind = record.name, str(record.msg), _cause()
        bucket = self._buckets.get(kind)
        if bucket is None:
            if len(self._buckets) >= KINDS_LIMIT:
                self._buckets.popitem(last=False)
            bucket = self._buckets[kind] = _Bucket(record)
        self._buckets.move_to_end(kind)
        return bucket.take(record)

    def overdue(self, now: float) -> list[tuple[logging.LogRecord, int]]:
        """Return the last line and the number of suppressed lines of each kind not told for QUIET_SECONDS."""
        return [
            (bucket.last, bucket.tell())
            for bucket in self._buckets.values()
            if bucket.left_out and now - bucket.last.created >= QUIET_SECONDS
        ]


class _Bucket:
    """Lines of one kind from one peer."""

    def __init__(self, record: logging.LogRecord) -> None:
        self._room = float(BURST)
        self.last = record
        self.left_out = 0

    def take(self, record: logging.LogRecord) -> int | None:
        passed = max(0.0, record.created - self.last.created)
        self._room = min(float(BURST), self._room + passed * LINES_PER_SECOND)
        self.last = record
        if self._room < 1:
            self.left_out += 1
            return None
        self._room -= 1
        return self.tell()

    def tell(self) -> int:
        left_out, self.left_out = self.left_out, 0
        return left_out


def _cause() -> object:
    peer = log_peer.get()
    if peer is not None:
        return peer
    try:
        return id(trio.lowlevel.current_task())
    except RuntimeError:  # outside of Trio
        return None
