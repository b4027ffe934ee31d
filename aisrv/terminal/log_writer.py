"""Log lines to a descriptor that may block: the logging code never waits for it.

Lines go through a queue of a fixed length to a thread, the only one that waits. If the queue is full they are
dropped and counted. The thread writes to the descriptor itself: the lock of a text stream, held while a write
waits, would stop all users of that stream.
"""

import atexit
import logging
import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from aisrv.terminal.log_limit import QUIET_SECONDS, LogLimit
from aisrv.values.printable import printable_lines

QUEUE_LINES: Final = 1000
"""Capacity of the queue, in lines."""
LAST_SECONDS: Final = 0.5
"""Time to write the last lines when the process ends."""


class LogWriter(logging.Handler):
    """Writes log lines to a descriptor from a thread of its own; lines that repeat too often are left out."""

    def __init__(self, descriptor: int, *, queue_lines: int = QUEUE_LINES) -> None:
        """Write to a copy of `descriptor`, which is closed with the process."""
        super().__init__()
        self._descriptor = os.dup(descriptor)
        self._queue_lines = queue_lines
        self._limit = LogLimit()
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._held = 0
        self._writing = False
        self._ending = False

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._descriptor)

    def emit(self, record: logging.LogRecord) -> None:
        left_out = self._limit.admit(record)
        if left_out is None:
            return
        if len(self._lines) >= self._queue_lines:
            self._dropped += 1
            return
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            self._lines.append(line + _left_out(left_out))
            if self._thread is None and not self._ending:
                self._start()
            self._changed.notify_all()

    def take(self) -> list[str]:
        """Take the queued lines, and one with the number of dropped lines."""
        with self._changed:
            for record, count in self._limit.overdue(math.inf if self._ending else time.time()):
                self._lines.append(self.format(record) + _left_out(count))
            lines = list(self._lines)
            self._lines.clear()
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(f"{dropped} log lines were dropped: they came faster than they are read")
        return lines

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write nothing within the block: its owner takes the lines and shows them."""
        with self._changed:
            self._held += 1
            while self._writing and self._changed.wait(LAST_SECONDS):
                pass
        try:
            yield
        finally:
            with self._changed:
                self._held -= 1
                self._changed.notify_all()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._write_lines, name="aisrv log", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def _end(self) -> None:
        """Give the thread a moment to write the last lines."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)

    def _write_lines(self) -> None:
        while self._wait():
            self._write_taken()
            with self._changed:
                self._writing = False
                self._changed.notify_all()
        self._write_taken()  # counts of what was left out

    def _wait(self) -> bool:
        """Wait for lines; False if the process ends and none are left."""
        with self._changed:
            while not self._lines or self._held:
                if self._ending:
                    return False
                if not self._changed.wait(QUIET_SECONDS) and not self._held:
                    break  # what was left out may be due
            self._writing = True
            return True

    def _write_taken(self) -> None:
        text = "".join(f"{printable_lines(line)}\n" for line in self.take())
        with suppress(OSError):  # nobody is there to be told; later lines may find a reader again
            self._write(text.encode(errors="backslashreplace"))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # somebody who shares the descriptor made it so
                select.select([], [self._descriptor], [])


def _left_out(count: int) -> str:
    return f" ({count} more of these were left out)" if count else ""
