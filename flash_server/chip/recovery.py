"""The end of a change of the data partition, made from its journal: at once, or after the power came back."""

import zlib
from typing import Final

from flash_server.chip.partitions import Partition
from flash_server.image.journal import (
    CRC_OFFSET,
    RECORD_BYTES,
    JournalRecord,
    PartitionChange,
    ReservedSectors,
)

_VOID: Final = bytes(RECORD_BYTES - CRC_OFFSET)


async def finish_change(data: Partition) -> bool:
    """Make the change that a journal holds; return whether there was one. Call it where there is no image.

    Stopped at any moment, it can be called again. A journal that the rest of the partition does not fit is
    left alone. Raises a FlashError of the chip.
    """
    sector = data.chip.part.sector_size
    places = ReservedSectors(data.size, sector)
    if not places.image_end:
        return False
    record = JournalRecord.find(await data.read(places.record, RECORD_BYTES), places)
    if record is None:
        return False
    copies = [await data.read(place, sector) for place, _ in zip(places.copies, record.targets, strict=False)]
    change = PartitionChange(
        tuple(zip(record.targets, copies, strict=True)), range(record.erase_start, record.erase_end)
    )
    if await _crc(data, change, record.end) != record.crc:
        return False
    for start in range(record.erase_start, record.erase_end, sector):
        if (await data.read(start, sector)).strip(b"\xff"):
            await data.erase_sector(start)
    (_, headers), *others = change.sectors
    for start, contents in others:
        if await data.read(start, sector) != contents:
            await data.erase_sector(start)
            await data.program(start, contents)
    page = data.chip.part.page_size
    if (await data.read(0, sector)).strip(b"\xff"):
        await data.erase_sector(0)
    await data.program(page, headers[page:])
    await data.program(0, headers[:page])  # the image counts from here on
    await data.program(places.record + CRC_OFFSET, _VOID)
    return True


async def _crc(data: Partition, change: PartitionChange, end: int) -> int:
    """Return the CRC-32 that the first bytes of the partition have once changed."""
    sector = data.chip.part.sector_size
    crc = 0
    for start in range(0, end, sector):
        contents = change.contents(start, sector)
        crc = zlib.crc32(await data.read(start, sector) if contents is None else contents, crc)
    return crc
