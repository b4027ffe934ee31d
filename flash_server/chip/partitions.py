"""The chip divided in a boot and a data partition, and the segments of each engine in the latter.

The end of the boot partition is not stored on the chip: as with XMOS's tools it is a setting. Sources: the
design document, section Flash; "XCORE AI server: numbers and wire behavior", section Flash.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from aisrv.xcore.runtime import let_others_run
from flash_server.chip.part import FlashPart
from flash_server.errors import LayoutError, PartError
from flash_server.image.detect import detect_in_steps
from flash_server.image.generations import ImageFormat
from flash_server.image.headers import (
    LENGTH_BYTES,
    PREFIX_BYTES,
    Part,
    Segment,
    Segments,
    judge_segments_in_steps,
    model_segment,
    parse_headers_in_steps,
)
from flash_server.image.steps import Steps

T = TypeVar("T")


class FlashMemory(Protocol):
    """The verbs of a chip that the server uses; `flash_server.chip.chip.FlashChip` is one.

    Each lets other tasks run, and raises a FlashError: an address off the part, a protected chip, a file that
    cannot be written.
    """

    @property
    def part(self) -> FlashPart: ...

    async def read(self, address: int, size: int) -> bytes: ...

    async def write_enable(self) -> None:
        """Let the next program or erase through."""

    async def program_page(self, address: int, data: bytes) -> None:
        """Clear bits within one page."""

    async def erase_sector(self, address: int) -> None:
        """Set all bits of the sector at that address."""

    def watch(self, changed: Callable[[int, bytes], None]) -> Callable[[], None]:
        """Call `changed(address, data)` after each change, whoever makes it; the result ends that."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A range of the chip; offsets are counted from its start."""

    chip: FlashMemory
    name: str
    start: int
    """Address on the chip, in bytes."""
    size: int

    def __post_init__(self) -> None:
        """Check that the chip has it, and that no sector is shared with a neighbor."""
        self.chip.part.check_range(self.start, self.size)
        sector = self.chip.part.sector_size
        if self.start % sector or self.size % sector:
            raise PartError(
                f"{self.name} partition of {self.size} bytes at {self.start:#x}: "
                f"both must be whole sectors of {sector}"
            )

    def holds(self, offset: int, size: int) -> bool:
        return min(offset, size) >= 0 and offset + size <= self.size

    async def read(self, offset: int, size: int) -> bytes:
        """Read bytes. Raises PartError past the end."""
        return await self.chip.read(self._address(offset, size), size)

    async def erase_sector(self, offset: int) -> None:
        """Erase the sector at an offset."""
        await self.chip.write_enable()
        await self.chip.erase_sector(self._address(offset, 1))

    async def program(self, offset: int, data: bytes) -> None:
        """Program bytes page by page; where they are FF there is nothing to program."""
        address = self._address(offset, len(data))
        page = self.chip.part.page_size
        done = 0
        while done < len(data):
            room = page - (address + done) % page
            piece = data[done : done + room]
            if piece.strip(b"\xff"):
                await self.chip.write_enable()
                await self.chip.program_page(address + done, piece)
            done += room

    def watch(self, changed: Callable[[int, bytes], None]) -> Callable[[], None]:
        """Call `changed(offset, data)` after each change of the chip, also elsewhere; the result ends it."""

        def watcher(address: int, data: bytes) -> None:
            changed(address - self.start, data)

        return self.chip.watch(watcher)

    def _address(self, offset: int, size: int) -> int:
        if not self.holds(offset, size):
            raise PartError(
                f"{size} bytes at {offset:#x} do not fit the {self.name} partition of {self.size:#x} bytes"
            )
        return self.start + offset


@dataclass(frozen=True, slots=True)
class Partitions:
    """The two partitions of a chip."""

    boot: Partition
    data: Partition


def divide(chip: FlashMemory, boot_bytes: int) -> Partitions:
    """Divide a chip at `boot_bytes`, whole sectors, into boot and data partition. Raises PartError."""
    return Partitions(
        Partition(chip, "boot", 0, boot_bytes),
        Partition(chip, "data", boot_bytes, chip.part.size - boot_bytes),
    )


@dataclass(frozen=True, slots=True)
class DataImage:
    """The headers of a data partition: for each engine its segments, or its error."""

    detected: ImageFormat
    engines: tuple[Segments | LayoutError, ...]

    def segments(self, engine: int) -> Segments:
        """Return the segments of an engine, none if the image has fewer engines; raises its LayoutError."""
        if engine >= len(self.engines):
            return Segments()
        found = self.engines[engine]
        if isinstance(found, LayoutError):
            raise found
        return found


async def read_image(data: Partition) -> DataImage:
    """Detect and parse the image of a data partition, in steps. Raises NoImageError, LayoutError."""
    prefix = await data.read(0, min(PREFIX_BYTES, data.size))
    detected = await _detect(data, prefix)
    headers = await _take_turns(parse_headers_in_steps(prefix, detected))
    segments = await _take_turns(judge_segments_in_steps(headers, detected.generation, data.size))
    return DataImage(detected, segments)


async def _take_turns(steps: Steps[T]) -> T:
    """Do work, and let other tasks run after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await let_others_run()


async def _detect(data: Partition, prefix: bytes) -> ImageFormat:
    """Detect twice: once to learn which models' lengths count, then with those behind the prefix, too."""
    stored: dict[tuple[int, int], bytes] = {}

    def read(offset: int, size: int) -> bytes:
        return stored.setdefault((offset, size), prefix[offset : offset + size])

    first = await _take_turns(detect_in_steps(prefix, data.size, read))
    missing = [(offset, size) for (offset, size), found in stored.items() if len(found) < size]
    if not missing:
        return first
    for offset, size in missing:
        if data.holds(offset, size):
            stored[offset, size] = await data.read(offset, size)
    return await _take_turns(detect_in_steps(prefix, data.size, read))


async def model_bytes(data: Partition, image: DataImage, engine: int) -> Segment | None:
    """Return the segment of an engine's model, behind its length; None if it has none. Raises LayoutError."""
    segment = image.segments(engine)[Part.MODEL]
    if segment is None:
        return None
    stored = await data.read(segment.start, LENGTH_BYTES)
    return model_segment(engine, segment, int.from_bytes(image.detected.normal(stored), "little"))
