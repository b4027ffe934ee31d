"""Stored bytes that code runs from in place: memory that always holds what the chip holds.

The memory is a file without a name, which another process can map. A programmer that changes the chip changes
it, too; the flash server refuses to write there as long as it is open.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from flash_server.image.nibbles import SWAP

_FIXED_SIZE: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_SEAL_FUTURE_WRITE: Final = 0x10
"""No mapping and no write from now on changes the file; the mapping that is there does. Linux 5.1."""


class LiveSegment:
    """`size` bytes from `start` of a data partition, zeros at first; its maker fills it."""

    def __init__(
        self, owner: str, start: int, size: int, *, swapped: bool, release: Callable[[], None]
    ) -> None:
        """Take memory, rounded up to pages; `release` is called at the end. OSError."""
        self.owner: Final = owner
        """Who runs it, for messages."""
        self.start: Final = start
        self.end: Final = start + size
        self.changes = 0
        """How often the chip was changed here."""
        self._swapped = swapped
        with ExitStack() as undo:
            self.descriptor: Final = os.memfd_create("aisrv-flash", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            undo.callback(os.close, self.descriptor)
            pages = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
            os.ftruncate(self.descriptor, pages)
            self.memory: Final = mmap.mmap(self.descriptor, pages)
            """What the chip holds, as clients read it, then zeros up to a whole page."""
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _FIXED_SIZE)
            with suppress(OSError):  # an older kernel: who maps it may then harm itself
                fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE)
            undo.callback(release)
            self._closing = undo.pop_all()

    def meets(self, start: int, end: int) -> bool:
        """Whether it has a byte of a range of the partition."""
        return start < self.end and self.start < end

    def store(self, start: int, data: bytes) -> None:
        """Take over what the chip now holds from an offset of the partition on, as far as it is here."""
        if not self.meets(start, start + len(data)):
            return
        skipped = max(0, self.start - start)
        piece = data[skipped : self.end - start]
        at = start + skipped - self.start
        self.memory[at : at + len(piece)] = piece.translate(SWAP) if self._swapped else piece
        self.changes += 1

    def close(self) -> None:
        """Let the flash server write there again. The memory stays readable; a second call does nothing."""
        self._closing.close()
