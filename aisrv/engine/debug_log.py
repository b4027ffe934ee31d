"""The debug log of an engine: the last few lines, as GET_DEBUG_LOG answers them."""

import logging
from collections import deque
from typing import Final

from aisrv.values.printable import printable_lines

SIZE: Final = 2048
"""Bytes of the answer: the newest lines that fit, each ended by a newline, then NUL."""

LINE_LIMIT: Final = 512
"""Bytes of one line with its newline; a longer one is cut."""


MOST_LINES: Final = 256
"""Lines of one text that are taken, the last ones: a model decides how much its interpreter prints."""


class DebugLog:
    """Keeps the newest lines and passes each on to a logger of the host's."""

    def __init__(self, logger: logging.Logger) -> None:
        self._lines: deque[bytes] = deque()
        self._used = 0
        self._logger = logger

    def write(self, text: str) -> None:
        """Add text, one entry a line, its last `MOST_LINES` at most; the oldest lines make room."""
        for each in text.splitlines()[-MOST_LINES:]:
            line = printable_lines(each.replace("\0", "").encode(errors="backslashreplace").decode())
            self._logger.info("%s", line)
            whole = line.encode()
            cut = whole[: LINE_LIMIT - 1].decode(errors="ignore")  # not in the middle of a character
            encoded = cut.encode() + b"\n"
            self._lines.append(encoded)
            self._used += len(encoded)
            while self._used >= SIZE:
                self._used -= len(self._lines.popleft())

    def __bytes__(self) -> bytes:
        """The log as it goes over the wire: text, padded with NUL to SIZE bytes."""
        return b"".join(self._lines).ljust(SIZE, b"\0")
