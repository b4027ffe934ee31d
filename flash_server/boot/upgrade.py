"""The boot partition of a chip: read at reset, and written piece by piece by an upgrade.

Cutting the power at any moment of an upgrade leaves the factory image, or the whole new one: the sector with
the old header is erased first, and the page with the new header is programmed last, after everything else was
read back. The factory slot is never written.
"""

import zlib
from dataclasses import dataclass
from typing import Final

from flash_server.boot.boot_image import (
    HEADER_BYTES,
    BootHeader,
    BootImageError,
    BootReport,
    Slot,
    SlotContent,
    SlotFault,
    choose,
    slot_bytes,
    slot_header,
)
from flash_server.chip.partitions import Partition
from flash_server.errors import FlashError
from flash_server.protocol import PIECE_BYTES

PADDING_BYTES: Final = 3
"""Bytes that may follow an image: hosts pad to words ("XCORE AI server: numbers and wire behavior", SPI)."""


class VerifyError(FlashError):
    """The chip does not hold the bytes that were programmed."""


@dataclass(frozen=True, slots=True)
class BootSlot:
    """One slot of a boot partition, of `size` bytes from `start`."""

    boot: Partition
    start: int
    size: int

    @classmethod
    def of(cls, boot: Partition, slot: Slot) -> "BootSlot":
        """Return the factory slot at 0 or the upgrade slot at half of the partition."""
        size = slot_bytes(boot.size, boot.chip.part.sector_size)
        return cls(boot, slot * size, size)

    async def payload_crc(self, offset: int, size: int, crc: int = 0) -> int:
        """Return the CRC-32 of bytes of the slot, continuing one."""
        for at in range(offset, offset + size, PIECE_BYTES):
            piece = await self.boot.read(self.start + at, min(PIECE_BYTES, offset + size - at))
            crc = zlib.crc32(piece, crc)
        return crc

    async def inspect(self) -> SlotContent:
        """Return the header of a valid image, or the fault of the slot."""
        has_room = self.size >= HEADER_BYTES
        header = slot_header(await self.boot.read(self.start, HEADER_BYTES) if has_room else b"")
        if isinstance(header, SlotFault):
            return header
        if header.image_bytes > self.size:
            return SlotFault(f"an image of {header.image_bytes} bytes in a slot of {self.size}")
        if await self.payload_crc(HEADER_BYTES, header.length) != header.crc:
            return SlotFault("the payload of the boot image is damaged: its CRC is wrong")
        return header


async def boot_report(boot: Partition) -> BootReport:
    return choose(
        await BootSlot.of(boot, Slot.FACTORY).inspect(), await BootSlot.of(boot, Slot.UPGRADE).inspect()
    )


class Upgrade:
    """An upgrade in progress. Drop it at an error: only a new one may follow."""

    def __init__(self, boot: Partition) -> None:
        self._slot = BootSlot.of(boot, Slot.UPGRADE)
        self._page = boot.chip.part.page_size
        self._sector = boot.chip.part.sector_size
        self._header: BootHeader | None = None
        self._first = bytearray()  # the page with the header, which is held back
        self._rest = bytearray()  # what does not fill a page yet
        self._stored = 0  # bytes of the slot programmed or held back in whole pages
        self._crc = 0
        self.received = 0

    async def write(self, piece: bytes) -> None:
        """Take the next bytes; whole pages but the first are programmed at once.

        Raises BootImageError before anything is erased if the header is not one, or the image too long for
        the slot; later if more bytes come than the header says.
        """
        self.received += len(piece)
        self._rest += piece
        header = self._header
        if header is None:
            if self.received < HEADER_BYTES:
                return
            header = self._header = BootHeader.from_bytes(bytes(self._rest[:HEADER_BYTES]))
            if header.image_bytes > self._slot.size:
                raise BootImageError(
                    f"a boot image of {header.image_bytes} bytes does not fit the upgrade slot, "
                    f"which has {self._slot.size}"
                )
        if self.received > header.image_bytes + PADDING_BYTES:
            raise BootImageError(
                f"{self.received} bytes came of a boot image of which the header says {header.image_bytes}"
            )
        if excess := max(self.received - header.image_bytes, 0):
            del self._rest[max(len(self._rest) - excess, 0) :]
        while len(self._rest) >= self._page:
            await self._store(bytes(self._rest[: self._page]))
            del self._rest[: self._page]

    async def finish(self) -> BootHeader:
        """Program the rest, verify all, program the header's page. Raises BootImageError, VerifyError."""
        header = self._header
        if header is None:
            raise BootImageError(f"{self.received} bytes came, not even the {HEADER_BYTES} of a header")
        if self.received < header.image_bytes:
            raise BootImageError(f"{self.received} bytes came of a boot image of {header.image_bytes}")
        if self._rest:
            await self._store(bytes(self._rest))
            self._rest.clear()
        if self._crc != header.crc:
            raise BootImageError(
                f"the payload has CRC {self._crc:08x}, its header says {header.crc:08x}: it is damaged"
            )
        first = bytes(self._first)
        crc = zlib.crc32(first[HEADER_BYTES:])
        if await self._slot.payload_crc(len(first), header.image_bytes - len(first), crc) != header.crc:
            raise VerifyError("the upgrade slot reads back other bytes than were programmed")
        boot, start = self._slot.boot, self._slot.start
        await boot.program(start, first)
        if await boot.read(start, len(first)) != first:
            await boot.erase_sector(start)
            raise VerifyError("the header of the upgrade slot reads back other bytes than were programmed")
        return header

    async def _store(self, page: bytes) -> None:
        if self._stored % self._sector == 0:
            await self._slot.boot.erase_sector(self._slot.start + self._stored)
        if self._stored:
            self._crc = zlib.crc32(page, self._crc)
            await self._slot.boot.program(self._slot.start + self._stored, page)
        else:
            self._crc = zlib.crc32(page[HEADER_BYTES:])
            self._first += page
        self._stored += len(page)
