"""Execute in place: a read-only window on a segment of the flash, through a cache of lines.

Stands for the xcore.ai's software-defined memory; the shape of its cache is in `client.cache`. A miss is
filled by a task, one whole line at a time, as there.
"""

from typing import Final

from aisrv.xcore.tokens import WORD_BYTES
from flash_server.client.cache import XCORE_AI_CACHE, CacheCounters, CacheGeometry, WindowError
from flash_server.client.flash_channel import FlashChannel
from flash_server.image.headers import Part


class XipWindow:
    """The window of one task, which must not use its channel otherwise while it is in a read.

    Addresses are offsets in the segment, in bytes; words are little-endian. Open it with `open_window`.
    """

    def __init__(self, flash: FlashChannel, part: Part, size: int, geometry: CacheGeometry) -> None:
        self._flash = flash
        self._line_bytes = geometry.line_bytes
        self._ways = geometry.ways
        self._sets: list[dict[int, bytes]] = [{} for _ in range(geometry.sets)]  # each from the oldest use on
        self.part: Final = part
        self.size: Final = size
        """Bytes of the segment."""
        self.counters: Final = CacheCounters()

    def read_cached(self, address: int, size: int) -> bytes | None:
        """Read bytes of one cached line, without waiting; else None, and nothing is counted."""
        line_bytes = self._line_bytes
        number, start = divmod(address, line_bytes)
        sets = self._sets
        lines = sets[number % len(sets)]
        line = lines.get(number)
        end = start + size
        if line is None or size < 1 or end > len(line):
            return None
        del lines[number]
        lines[number] = line
        counters = self.counters
        counters.hits += 1
        counters.bytes_read += size
        return line[start:end]

    async def read(self, address: int, size: int) -> bytes:
        """Read bytes; lines that are not in the cache are filled one after the other.

        Lets other tasks run only if it misses. Raises WindowError unless the bytes are all in the segment,
        FlashReadError if the server failed: that line is not in the cache then.
        """
        found = self.read_cached(address, size)
        if found is not None:
            return found
        if min(address, size) < 0 or address + size > self.size:
            raise WindowError(
                f"{size} bytes at {address:#x}: the window on {self.part.label} has {self.size:#x} bytes"
            )
        data = bytearray()
        end = address + size
        while address < end:
            number, start = divmod(address, self._line_bytes)
            data += (await self._line(number))[start : start + end - address]
            address = (number + 1) * self._line_bytes
        self.counters.bytes_read += size
        return bytes(data)

    async def read_word(self, address: int) -> int:
        """Read the word at an address that is a multiple of 4, else WindowError; raises as `read` does."""
        if address % WORD_BYTES:
            raise WindowError(f"word at {address:#x}: a word's address is a multiple of {WORD_BYTES}")
        return int.from_bytes(await self.read(address, WORD_BYTES), "little")

    def invalidate(self) -> None:
        """Drop all lines; call it after the flash was written."""
        for lines in self._sets:
            lines.clear()

    async def _line(self, number: int) -> bytes:
        lines = self._sets[number % len(self._sets)]
        line = lines.pop(number, None)
        if line is None:
            start = number * self._line_bytes
            line = await self._flash.read(self.part, start, min(self._line_bytes, self.size - start))
            self.counters.misses += 1
            self.counters.bytes_filled += len(line)
            if len(lines) == self._ways:
                del lines[next(iter(lines))]
        else:
            self.counters.hits += 1
        lines[number] = line
        return line


async def open_window(
    flash: FlashChannel, part: Part = Part.XIP, geometry: CacheGeometry = XCORE_AI_CACHE
) -> XipWindow:
    """Open a window on a segment. Raises WindowError if it is absent, FlashReadError without an image."""
    if part is Part.MODEL:
        raise WindowError("the model has no window: it is read whole")
    sizes = await flash.read_sizes()
    size = sizes[part]
    if not size:
        raise WindowError(f"the image has no {part.label} for this engine")
    return XipWindow(flash, part, size, geometry)
