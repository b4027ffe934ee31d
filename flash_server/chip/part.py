"""Flash parts as values: sizes, identity, clock limit, and the time of each operation.

Sources. The identities and sizes, of the MX25R6435F and MX25R3235F, are those of their data sheets (Macronix,
sections "Features" and "Device identification"). The times of the MX25R6435F are those that the part states
of itself: its basic flash parameter table (JEDEC JESD216B, section 6.4, DWORDs 10 and 11), typical values,
rounded up to the units of that table. Figures without such a source are marked as estimates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flash_server.errors import PartError

LARGEST_SIZE: Final = 1 << 24
"""Bytes that addresses of 24 bits reach: the commands have no other."""

LARGEST_SECTOR: Final = 65536
"""Most bytes that are erased at once."""


CLOCK_HZ: Final = 25_000_000
"""Clock of the firmware's quad reads in Hz: 12.5 MB/s. Boards with a fast flash have 50 MHz."""

WIDTH: Final = 4
"""Lines that carry the data of the firmware's reads and programs."""

WIDTHS: Final = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Erase:
    """An erase command with its typical time in seconds."""

    opcode: int
    """Code of the command, 0 to 255."""
    size: int
    """Bytes that it erases: a power of two."""
    seconds: float
    """Typical time in seconds."""


SECTOR_ERASE: Final = 0x20
HALF_BLOCK_ERASE: Final = 0x52
BLOCK_ERASE: Final = 0xD8

MX25R_ERASES: Final = (
    Erase(SECTOR_ERASE, 4096, 0.048),
    Erase(HALF_BLOCK_ERASE, 32768, 0.240),
    Erase(BLOCK_ERASE, 65536, 0.480),
)
"""Sector, half block and block; the times are of DWORD 10 of the part's table."""


@dataclass(frozen=True, slots=True)
class FlashPart:
    """A QSPI NOR flash part. Raises PartError if its values contradict each other."""

    name: str
    """Name in messages."""
    size: int
    """Bytes of the chip."""
    jedec_id: int
    """Manufacturer, memory type and density, as RDID answers them: 0xC22817."""
    page_size: int = 256
    """Bytes that one program command reaches."""
    erases: tuple[Erase, ...] = field(default=MX25R_ERASES)
    """Erase commands, from the smallest, which is the sector."""
    largest_clock_hz: int = 50_000_000
    """Largest clock of a quad read, in Hz: up to 50 MHz ("XCORE AI server: numbers and wire behavior")."""
    page_program_seconds: float = 0.000_896
    """Seconds to program a whole page, typical (DWORD 11)."""
    chip_erase_seconds: float = 52.0
    """Seconds to erase the chip, typical (DWORD 11)."""
    write_status_seconds: float = 0.010
    """Seconds to write the status register, an estimate."""

    def __post_init__(self) -> None:
        if not 0 < self.jedec_id < 1 << 24:
            raise PartError(f"{self.name}: the JEDEC id 0x{self.jedec_id:X} does not fit three bytes")
        if not self.erases:
            raise PartError(f"{self.name}: no erase command; name at least the sector's")
        for size in (self.page_size, *(erase.size for erase in self.erases)):
            if size <= 0 or size & (size - 1):
                raise PartError(f"{self.name}: {size} bytes for a page, sector or block: no power of two")
        if list(self.erases) != sorted(self.erases, key=lambda erase: erase.size):
            raise PartError(f"{self.name}: erase commands are named from the smallest to the largest")
        if len({erase.opcode for erase in self.erases}) < len(self.erases):
            raise PartError(f"{self.name}: two erase commands have the same opcode")
        if self.page_size > self.sector_size:
            raise PartError(f"{self.name}: pages of {self.page_size}, sectors of {self.sector_size} bytes")
        if self.sector_size > LARGEST_SECTOR:
            raise PartError(f"{self.name}: sectors of {self.sector_size} bytes, {LARGEST_SECTOR} is the most")
        if self.size <= 0 or self.size % self.erases[-1].size:
            raise PartError(f"{self.name}: {self.size} bytes are not whole blocks of {self.erases[-1].size}")
        if self.size > LARGEST_SIZE:
            raise PartError(f"{self.name}: {self.size} bytes; addresses of 24 bits reach {LARGEST_SIZE}")
        if self.largest_clock_hz <= 0:
            raise PartError(f"{self.name}: a clock of {self.largest_clock_hz} Hz; it must be above 0")
        times = (self.page_program_seconds, self.chip_erase_seconds, self.write_status_seconds)
        if min(*times, *(erase.seconds for erase in self.erases)) < 0:
            raise PartError(f"{self.name}: an operation takes a negative time")

    @property
    def sector_size(self) -> int:
        """Bytes of the smallest erase."""
        return self.erases[0].size

    @property
    def identification(self) -> bytes:
        """The three bytes of RDID."""
        return self.jedec_id.to_bytes(3, "big")

    def check_range(self, address: int, size: int) -> None:
        """Raise PartError unless `size` bytes from `address` exist on the part."""
        if address < 0 or size < 0 or address + size > self.size:
            raise PartError(f"{size} bytes at address {address:#x}: {self.name} ends at {self.size:#x}")

    def check_sectors(self, address: int, size: int) -> None:
        """Raise PartError unless the bytes are whole sectors."""
        if address % self.sector_size or size % self.sector_size:
            sector = self.sector_size
            raise PartError(f"{size} bytes at {address:#x} are not whole sectors of {sector} ({self.name})")


MX25R6435F: Final = FlashPart("MX25R6435F", 8 * 1024 * 1024, 0xC22817)
"""64 Mbit, as on XMOS's explorer board."""

MX25R3235F: Final = FlashPart("MX25R3235F", 4 * 1024 * 1024, 0xC22816, chip_erase_seconds=26.0)
"""32 Mbit. Times as of its larger sibling, half of its for the chip erase: estimates."""

PARTS: Final[Mapping[str, FlashPart]] = {part.name: part for part in (MX25R6435F, MX25R3235F)}
"""Known parts by name."""


def part_named(name: str) -> FlashPart:
    """Return the known part of that name, in upper or lower case. Raises PartError, which lists them all."""
    found = PARTS.get(name.upper())
    if found is None:
        raise PartError(f"no part is named {name!r}; known are {', '.join(PARTS)}")
    return found


def part_identified(identification: bytes) -> FlashPart | None:
    """Return the known part whose answer to RDID is `identification`, or None."""
    return next((part for part in PARTS.values() if part.identification == identification), None)
