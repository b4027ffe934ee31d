"""Bytes of a flash chip, changed as a programmer changes them."""

from flash_server.chip.chip import FlashChip

SECTOR = 4096


async def overwrite(chip: FlashChip, address: int, data: bytes) -> None:
    """Change bytes within a sector as a programmer does: read, erase, program."""
    start = address - address % SECTOR
    sector = bytearray(await chip.read(start, SECTOR))
    sector[address - start : address - start + len(data)] = data
    await chip.write_enable()
    await chip.erase_sector(start)
    for page in range(0, SECTOR, 256):
        await chip.write_enable()
        await chip.program_page(start + page, bytes(sector[page : page + 256]))
