"""Stored bytes that code runs from in place: memory that always equals the chip.

The memory is a file without a name, which another process can map. A programmer that changes the chip changes
it, too; the flash server refuses to write there as long as it is open.
"""

import mmap
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import accumulate
from typing import Final

from flash_server.image.nibbles import SWAP

_SEAL_FUTURE_WRITE: Final = 0x10
"""No mapping and no write from now on changes the file; the existing mapping does. Linux 5.1."""


class LiveSegment:
    """Stretches of a data partition in one piece of memory, zeros at first; its maker fills it."""

    def __init__(
        self,
        owner: str,
        start: int,
        size: int,
        *more: tuple[int, int],
        swapped: bool,
        release: Callable[[], None],
    ) -> None:
        """Take memory for `size` bytes from `start`, and for more such; each begins at a page of its own.

        `release` is called at the end. Raises OSError.
        """
        import fcntl  # where there are such files

        self.owner: Final = owner
        self.stretches: Final = tuple(range(first, first + count) for first, count in ((start, size), *more))
        """Offsets in the partition."""
        self.changes = 0
        """Number of changes of the chip here."""
        self._swapped = swapped
        ends = tuple(accumulate(map(_whole_pages, self.stretches)))
        self.places: Final = (0, *ends[:-1])
        """Start of each stretch in the memory."""
        with ExitStack() as undo:
            self.descriptor: Final = os.memfd_create("aisrv-flash", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            undo.callback(os.close, self.descriptor)
            os.ftruncate(self.descriptor, ends[-1])
            self.memory: Final = mmap.mmap(self.descriptor, ends[-1])
            """Bytes of the chip, as clients read them, each stretch with zeros up to a whole page."""
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            with suppress(OSError):  # an older kernel: who maps it may then harm itself
                fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
            undo.callback(release)
            self._closing = undo.pop_all()

    def met(self, start: int, end: int) -> range | None:
        """Return the first stretch that has a byte of a range of the partition, or None."""
        return next((each for each in self.stretches if start < each.stop and each.start < end), None)

    def store(self, start: int, data: bytes) -> None:
        """Copy the chip's new bytes from an offset of the partition on, as far as they are here."""
        if self.met(start, start + len(data)) is None:
            return
        for place, stretch in zip(self.places, self.stretches, strict=True):
            skipped = max(0, stretch.start - start)
            piece = data[skipped : max(0, stretch.stop - start)]
            at = place + start + skipped - stretch.start
            if piece:
                self.memory[at : at + len(piece)] = piece.translate(SWAP) if self._swapped else piece
        self.changes += 1

    def close(self) -> None:
        """Let the flash server write there again. The memory stays readable; a second call does nothing."""
        self._closing.close()


def _whole_pages(stretch: range) -> int:
    return -(-max(len(stretch), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
