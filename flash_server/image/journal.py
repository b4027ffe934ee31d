"""The journal of a data partition: sectors that change all at once, or not at all, whenever the chip stops.

The last five sectors of a data partition are not for images: one for the journal's record, three for the new
contents of sectors, one for settings. A writer of the partition

1. writes a claim, which says what free sectors it is about to write,
2. writes these, and the new contents of used sectors to the journal,
3. writes the record, then erases sector 0,
4. has the change made, and erases the journal.

From the third step on the partition has no image, and whoever reads it next makes the change: it rewrites the
other sectors, then sector 0, whose first page comes last. A record counts only if the partition, once
changed, has the CRC-32 that the record states. Stopped before, the partition has the old image, and the next
writer erases what was claimed. The format is ours.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Annotated, Final, Self

from aisrv.values.packet import U32, Packet, Wire
from flash_server.errors import LayoutError

CLAIM_MAGIC: Final = b"aisrvjnl"
MAGIC: Final = b"jrec"
COPIES: Final = 3
"""Sectors that one record can change."""
SETTINGS_MAGIC: Final = b"jdsa"
"""First bytes of the sector for settings, if it has any."""
CLAIM_BYTES: Final = 256
"""Bytes for a claim, before the record."""
_RESERVED: Final = 1 + COPIES + 1
_UNUSED: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class ReservedSectors:
    """The places at the end of a data partition of `size` bytes that are not for images."""

    size: int
    sector: int
    """Bytes of a sector."""

    @property
    def image_end(self) -> int:
        """Bytes for images; 0 where there is no room for a journal."""
        return max(self.size - _RESERVED * self.sector, 0)

    @property
    def claim(self) -> int:
        """Offset of the sector with the claim and the record."""
        return self.image_end

    @property
    def record(self) -> int:
        """Offset of the record."""
        return self.claim + CLAIM_BYTES

    @property
    def copies(self) -> tuple[int, ...]:
        """Offsets of the sectors for new contents."""
        return tuple(self.claim + number * self.sector for number in range(1, 1 + COPIES))

    @property
    def settings(self) -> int:
        """Offset of the sector for settings."""
        return self.size - self.sector


class JournalRecord(Packet, byte_order="<", error=LayoutError, kw_only=True, name="a record of the journal"):
    """A change of a data partition, but for the CRC-32 of the record, which follows."""

    magic: Annotated[bytes, Wire("4s")] = MAGIC
    end: U32
    """Bytes of the partition that `crc` is of: whole sectors from the start."""
    crc: U32
    """CRC-32 of the changed partition."""
    erase_start: U32
    """Start of the sectors that become FF."""
    erase_end: U32
    first: U32 = 0
    """Offset of a sector that gets the first of the new contents."""
    second: U32 = _UNUSED
    third: U32 = _UNUSED

    def __bytes__(self) -> bytes:
        fields = Packet.__bytes__(self)
        return fields + zlib.crc32(fields).to_bytes(4, "little")

    @classmethod
    def of(cls, change: "PartitionChange", end: int, crc: int) -> Self:
        first, second, third = (*(start for start, _ in change.sectors), _UNUSED, _UNUSED)[:COPIES]
        erased = change.erased
        return cls(
            end=end,
            crc=crc,
            erase_start=erased.start,
            erase_end=erased.stop,
            first=first,
            second=second,
            third=third,
        )

    @classmethod
    def find(cls, stored: bytes, places: ReservedSectors) -> Self | None:
        """Return the record at the start of its sector; None if there is none, or none that counts."""
        if stored[cls.SIZE : RECORD_BYTES] != zlib.crc32(stored[: cls.SIZE]).to_bytes(4, "little"):
            return None
        record = cls.unpack_from(stored)
        bounds = (record.end, record.erase_start, record.erase_end, *record.targets)
        inside = all(bound <= places.image_end and bound % places.sector == 0 for bound in bounds)
        sound = record.magic == MAGIC and record.first == 0 and record.erase_start <= record.erase_end
        return record if inside and sound else None

    @property
    def targets(self) -> tuple[int, ...]:
        """Offsets of the sectors with new contents, in the order of the journal's copies."""
        return tuple(start for start in (self.first, self.second, self.third) if start != _UNUSED)


RECORD_BYTES: Final = JournalRecord.SIZE + 4
CRC_OFFSET: Final = JournalRecord.SIZE
"""Offset of the record's own CRC-32, which zeros make void."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change of a partition: up to `COPIES` sectors get new contents, whole sectors become FF."""

    sectors: tuple[tuple[int, bytes], ...]
    """Offset and new contents of each sector; the first is sector 0."""
    erased: range = range(0)
    """Bytes that become FF: whole sectors, none of them among `sectors`."""

    def contents(self, start: int, size: int) -> bytes | None:
        """Return the new bytes of the sector at an offset; None if it stays as it is."""
        found = next((data for place, data in self.sectors if place == start), None)
        return b"\xff" * size if found is None and start in self.erased else found


@dataclass(frozen=True, slots=True)
class Claim:
    """The free sectors that a change is about to write: u32 CRC-32, u16 count, u32 start and end of each.

    The magic comes before, the CRC-32 of all that follows.
    """

    crc: int
    """CRC-32 of the partition's image, with FF in the claimed sectors."""
    written: tuple[range, ...]

    def __bytes__(self) -> bytes:
        bounds = [bound for each in self.written for bound in (each.start, each.stop)]
        data = CLAIM_MAGIC + struct.pack(f"<IH{len(bounds)}I", self.crc, len(self.written), *bounds)
        if len(data) + 4 > CLAIM_BYTES:
            raise LayoutError(f"{len(self.written)} parts are to be written at once: too many")
        return data + zlib.crc32(data).to_bytes(4, "little")

    @classmethod
    def find(cls, stored: bytes, places: ReservedSectors) -> Self | None:
        """Return the claim at the start of its sector; None if there is none, or no whole one."""
        head = len(CLAIM_MAGIC) + _CLAIM.size
        if not is_claimed(stored):
            return None
        crc, count = _CLAIM.unpack_from(stored, len(CLAIM_MAGIC))
        end = head + 8 * count
        if stored[end : end + 4] != zlib.crc32(stored[:end]).to_bytes(4, "little"):
            return None
        bounds = struct.unpack_from(f"<{2 * count}I", stored, head)
        if any(bound > places.image_end or bound % places.sector for bound in bounds):
            return None
        return cls(crc, tuple(map(range, bounds[0::2], bounds[1::2])))

    @classmethod
    def of(cls, stored: memoryview, written: tuple[range, ...]) -> Self:
        return cls(_crc_without(stored, written), written)

    def unwritten(self, stored: bytes) -> bytes | None:
        """Return an image without what was claimed; None unless it is otherwise the image of the claim."""
        if _crc_without(memoryview(stored), self.written) != self.crc:
            return None
        image = bytearray(stored)
        for each in self.written:
            image[each.start : each.stop] = b"\xff" * len(each)
        return bytes(image)


_CLAIM: Final = struct.Struct("<IH")


def is_claimed(stored: bytes) -> bool:
    """Return whether a journal lies there, by the first bytes of its sector."""
    return stored.startswith(CLAIM_MAGIC)


def _crc_without(stored: memoryview, written: tuple[range, ...]) -> int:
    crc, at = 0, 0
    for each in sorted(written, key=lambda one: one.start):
        crc = zlib.crc32(stored[at : each.start], crc)
        at = each.stop
    return zlib.crc32(stored[at:], crc)
