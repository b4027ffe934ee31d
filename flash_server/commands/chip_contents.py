"""What a whole chip holds, as a value: boot slots, the image of the data partition, what is free."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from flash_server.boot.boot_image import (
    MAGIC,
    BootHeader,
    BootReport,
    Slot,
    SlotContent,
    SlotFault,
    report_of,
    slot_bytes,
    slot_content,
)
from flash_server.chip.part import PARTS
from flash_server.errors import LayoutError, NoImageError
from flash_server.files import InputError
from flash_server.image import Part
from flash_server.image.image_file import Image, is_erased
from flash_server.image.journal import CLAIM_MAGIC, SETTINGS_MAGIC, JournalRecord, ReservedSectors

SECTOR: Final = 4096
"""Bytes of a sector of the known parts."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes of a chip that something takes."""

    start: int
    """Address on the chip."""
    end: int
    kind: str
    """What it is: "factory", "upgrade", "headers", a part's label, "journal", "settings", or "other"."""
    engine: int | None = None
    """Engine of a part."""


@dataclass(frozen=True)
class ChipContents:
    """The contents of a chip; addresses are in bytes from its start."""

    path: Path
    data: memoryview
    boot_bytes: int
    """End of the boot partition."""
    image: Image | None = None
    """Image of the data partition."""
    no_image: str = ""
    """The reason that there is none."""
    is_damaged: bool = False
    """Whether that is a fault of what is there."""
    slots: tuple[SlotContent, ...] = field(init=False)

    def __post_init__(self) -> None:
        size = slot_bytes(self.boot_bytes, SECTOR)
        contents = (slot_content(bytes(self.data[slot * size : (slot + 1) * size])) for slot in Slot)
        object.__setattr__(self, "slots", tuple(contents))

    @classmethod
    def read(
        cls, path: Path, data: memoryview, boot_bytes: int, engines: int | None, swapped: bool | None
    ) -> Self:
        """Read a chip. Raises InputError for a boot partition that it does not have."""
        if boot_bytes > len(data) or boot_bytes % SECTOR:
            raise InputError(
                f"{path}: a boot partition of {boot_bytes} bytes: it is whole sectors of {SECTOR}, and the "
                f"chip has {len(data)}"
            )
        places = ReservedSectors(len(data) - boot_bytes, SECTOR)
        partition = data[boot_bytes:]
        if _is_reserved(partition, places):
            partition = partition[: places.image_end]
        try:
            image = Image.of(path, partition, engines, swapped)
        except LayoutError as error:
            text = str(error).removeprefix(f"{path}: ").removeprefix("no image: ")
            if is_erased(data[boot_bytes:]):
                text = "all bytes are FF"
            return cls(path, data, boot_bytes, None, text, not isinstance(error, NoImageError))
        return cls(path, data, boot_bytes, image)

    @property
    def part(self) -> str | None:
        """Name of the part of that size, if one is known."""
        return next((part.name for part in PARTS.values() if part.size == len(self.data)), None)

    @property
    def boots(self) -> BootReport:
        """What boots at the next reset."""
        return report_of(bytes(self.data[: self.boot_bytes]), SECTOR)

    @cached_property
    def is_erased(self) -> bool:
        """Return whether all bytes are FF."""
        return is_erased(self.data)

    @property
    def journal(self) -> str:
        """What the journal holds: "change", which a device makes when it starts, "claim", or nothing."""
        places = self._places
        if not places.image_end or not _begins(self._partition[places.claim :], CLAIM_MAGIC):
            return ""
        stored = bytes(self._partition[places.record : places.copies[0]])
        return "claim" if self.image or JournalRecord.find(stored, places) is None else "change"

    @property
    def faults(self) -> list[str]:
        """What is there and damaged; or that nothing is there at all."""
        found = [
            f"{slot.name.lower()} slot: {content.text}"
            for slot, content in zip(Slot, self.slots, strict=True)
            if isinstance(content, SlotFault) and not (content.empty or content.foreign)
        ]
        if self.is_damaged:
            found.append(f"data partition: {self.no_image}")
        holds = self.image is not None or any(isinstance(each, BootHeader) for each in self.slots)
        if not (found or holds or self.journal == "change"):
            found.append(
                "no image: the flash is erased, all bytes are FF"
                if self.is_erased
                else f"neither boot images nor a data partition's: {self.no_image}"
            )
        return found

    @cached_property
    def extents(self) -> list[Extent]:
        """What takes bytes, by address; sectors of which nothing is known and that are not FF are "other"."""
        known = sorted(self._known(), key=lambda each: (each.start, each.end))
        taken = {sector for each in known for sector in range(each.start // SECTOR, -(-each.end // SECTOR))}
        other: list[Extent] = []
        for sector in range(-(-len(self.data) // SECTOR)):
            start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(self.data))
            if sector in taken or is_erased(self.data[start:end]):
                continue
            if other and other[-1].end == start:
                start = other.pop().start
            other.append(Extent(start, end, "other"))
        return sorted([*known, *other], key=lambda each: (each.start, each.end))

    @cached_property
    def free(self) -> list[range]:
        """Stretches of erased sectors that nothing takes, on the whole chip."""
        found: list[range] = []
        at = 0
        for each in self.extents:
            start = each.start // SECTOR * SECTOR
            if start > at:
                found.append(range(at, start))
            at = max(at, -(-each.end // SECTOR) * SECTOR)
        if at < len(self.data):
            found.append(range(at, len(self.data)))
        return found

    def _known(self) -> Iterator[Extent]:
        size = slot_bytes(self.boot_bytes, SECTOR)
        for slot, content in zip(Slot, self.slots, strict=True):
            if isinstance(content, BootHeader):
                yield Extent(slot * size, slot * size + content.image_bytes, slot.name.lower())
        start, image = self.boot_bytes, self.image
        if image is not None:
            yield Extent(start, start + image.map.headers_end, "headers")
            for engine, header in enumerate(image.map.headers):
                for part in Part:
                    segment = image.map.parts[engine][part]
                    if segment is None:
                        continue
                    end = segment.start + image.used(engine, part)
                    if end > header[part]:
                        yield Extent(start + header[part], start + end, part.label, engine)
        places = self._places
        if self.journal:
            yield Extent(start + places.claim, start + places.settings, "journal")
        if places.image_end and _begins(self._partition[places.settings :], SETTINGS_MAGIC):
            yield Extent(start + places.settings, start + places.size, "settings")

    @property
    def _partition(self) -> memoryview:
        return self.data[self.boot_bytes :]

    @property
    def _places(self) -> ReservedSectors:
        return ReservedSectors(len(self.data) - self.boot_bytes, SECTOR)


def is_chip(data: memoryview) -> bool:
    """Return whether a file has the size of a known part, and no image at its start."""
    if all(len(data) != part.size for part in PARTS.values()):
        return False
    if _begins(data, MAGIC):
        return True
    try:
        Image.of(Path(), data)
    except LayoutError:
        return True
    return False


def _is_reserved(partition: memoryview, places: ReservedSectors) -> bool:
    """Return whether the last sectors are not a part's: FF, or what a journal and settings begin with."""
    if not places.image_end:
        return False
    claim, settings = partition[places.claim : places.settings], partition[places.settings :]
    return (_begins(claim, CLAIM_MAGIC) or is_erased(claim)) and (
        _begins(settings, SETTINGS_MAGIC) or is_erased(settings)
    )


def _begins(data: memoryview, magic: bytes) -> bool:
    return bytes(data[: len(magic)]) == magic
