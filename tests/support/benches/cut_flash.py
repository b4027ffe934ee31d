"""A flash chip whose power is cut at each of its operations, and what is on it after each cut."""

import binascii
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import trio

from flash_server.boot.boot_image import BootHeader, BootReport, Slot
from flash_server.boot.upgrade import BootSlot
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import SECTOR_ERASE, Erase, FlashPart
from flash_server.chip.partitions import divide, model_bytes
from flash_server.chip.storage import MemoryStorage, Storage
from flash_server.errors import FlashError
from flash_server.image.headers import Part
from flash_server.server.service import FlashService, RequestFailed

SECTOR = 4096
PART = FlashPart("cut", 32 * SECTOR, 0xC22811, erases=(Erase(SECTOR_ERASE, SECTOR, 0.0),))
BOOT_BYTES = 8 * SECTOR
DATA_BYTES = PART.size - BOOT_BYTES


def noise(seed: int, size: int) -> bytes:
    """Bytes as of a model: neither FF nor 00 at their end."""
    return random.Random(seed).randbytes(size - 1) + b"\x5a"


@dataclass
class CutStorage(MemoryStorage):
    """Bytes of a chip, which remember each operation: a page's program, or a sector's erase."""

    before: bytes
    operations: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(len(self.before))
        super().write(0, self.before)

    def write(self, address: int, data: bytes) -> None:
        self.operations.append((address, bytes(data)))
        super().write(address, data)

    def cuts(self) -> Iterator[bytes]:
        """The chip's bytes after each number of operations, from none to all."""
        yield from cuts_of(self.before, self.operations)


def cuts_of(before: bytes, operations: list[tuple[int, bytes]]) -> Iterator[bytes]:
    now = bytearray(before)
    yield bytes(now)
    for address, data in operations:
        if now[address : address + len(data)] != data:
            now[address : address + len(data)] = data
            yield bytes(now)


@dataclass(frozen=True)
class Contents:
    """What a device finds on a chip; None stands for what is cleanly not there."""

    found: dict[str, object]
    """Models and parameters of each engine, boot slots, settings."""
    boots: BootReport


@lru_cache(maxsize=512)
def contents(chip: bytes, engines: int) -> tuple[Contents, list[tuple[int, bytes]]]:
    """Start a device on the chip; return what it finds, and the operations of its start."""
    storage = CutStorage(chip)
    return contents_of(storage, PART, BOOT_BYTES, engines), storage.operations


def contents_of(storage: Storage, part: FlashPart, boot_bytes: int, engines: int) -> Contents:
    """Start a device on a chip, and return what it finds."""
    return trio.run(_read, storage, part, boot_bytes, engines)


async def _read(storage: Storage, part: FlashPart, boot_bytes: int, engines: int) -> Contents:
    service = FlashService(divide(FlashChip(part, storage), boot_bytes), lambda _: None)
    await service.reset()
    found: dict[str, object] = {}
    for slot in Slot:
        held = await BootSlot.of(service.partitions.boot, slot).inspect()
        found[slot.name] = held if isinstance(held, BootHeader) else None
    for engine in range(engines):
        for name, reader in (("model", _model), ("parameters", _parameters)):
            try:
                found[f"{name} {engine}"] = await reader(service, engine)
            except (RequestFailed, FlashError) as error:
                found[f"{name} {engine}"] = None if "no image" in str(error) else error
    found["setting"] = _setting(storage.read(part.size - SECTOR, SECTOR))
    return Contents(found, service.boot_report)


async def _model(service: FlashService, engine: int) -> bytes | None:
    image = service.image
    segment = await model_bytes(service.data, image, engine)
    if segment is None:
        return None
    return image.detected.normal(await service.data.read(segment.start, segment.size))


async def _parameters(service: FlashService, engine: int) -> bytes | None:
    image = service.image
    segment = image.segments(engine)[Part.PARAMETERS]
    if segment is None:
        return None
    # Padding behind parameters is a part of them; there may be more of it or less. The last part of an image
    # reaches to the end of the partition, where journal and settings are.
    size = min(segment.end, service.data.size - 5 * SECTOR) - segment.start
    return image.detected.normal(await service.data.read(segment.start, size)).rstrip(b"\xff")


def _setting(sector: bytes) -> bytes | None:
    length, crc = int.from_bytes(sector[4:6], "little"), int.from_bytes(sector[6:8], "little")
    data = sector[8 : 8 + length]
    return data if sector[:4] == b"jdsa" and binascii.crc_hqx(data, 0xFFFF) == crc else None
