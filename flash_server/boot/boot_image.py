"""Boot images as values: a header of ours before opaque bytes, and which of the two slots wins at reset.

The boot partition has a factory slot at 0 and an upgrade slot at its half. Header, 24 bytes, little-endian:
magic "XSRV", u16 header version 1, u16 kind 1 (a server), u32 image version, u32 payload bytes, u32 CRC-32 of
the payload, u32 CRC-32 of the 20 bytes before. The format is ours; the payload is not looked into.
"""

import enum
import struct
import zlib
from dataclasses import dataclass
from typing import Final, Self

from flash_server.errors import FlashError

MAGIC: Final = b"XSRV"
HEADER_VERSION: Final = 1
SERVER_KIND: Final = 1
HEADER_BYTES: Final = 24

_FIELDS: Final = struct.Struct("<4sHHIII")
_REPORT: Final = struct.Struct("<5I")
REPORT_BYTES: Final = _REPORT.size


class BootImageError(FlashError):
    """Bytes that are no boot image, or one that does not fit; the message says what is wrong."""


class Slot(enum.IntEnum):
    """Where an image lies."""

    FACTORY = 0
    UPGRADE = 1


@dataclass(frozen=True, slots=True)
class BootHeader:
    """What the header of an image says."""

    version: int
    """Counts up; the larger is the newer."""
    length: int
    """Bytes of the payload."""
    crc: int
    """CRC-32 of the payload."""

    def __bytes__(self) -> bytes:
        fields = _FIELDS.pack(MAGIC, HEADER_VERSION, SERVER_KIND, self.version, self.length, self.crc)
        return fields + zlib.crc32(fields).to_bytes(4, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the first HEADER_BYTES of an image; raises BootImageError where they are no header."""
        if len(data) < HEADER_BYTES:
            raise BootImageError(
                f"a boot image has {HEADER_BYTES} bytes of header, this one {len(data)} in all"
            )
        fields = data[: _FIELDS.size]
        magic, header_version, kind, version, length, crc = _FIELDS.unpack(fields)
        if magic != MAGIC:
            raise BootImageError(f"a boot image begins with {MAGIC!r}, this one with {magic!r}")
        if int.from_bytes(data[_FIELDS.size : HEADER_BYTES], "little") != zlib.crc32(fields):
            raise BootImageError("the header of the boot image is damaged: its CRC is wrong")
        if (header_version, kind) != (HEADER_VERSION, SERVER_KIND):
            raise BootImageError(
                f"the boot image is of header version {header_version} and kind {kind}; "
                f"known are version {HEADER_VERSION}, kind {SERVER_KIND}"
            )
        return cls(version, length, crc)

    @property
    def image_bytes(self) -> int:
        """Bytes of header and payload."""
        return HEADER_BYTES + self.length


def build_boot_image(version: int, payload: bytes) -> bytes:
    """Put the header before a payload. Raises BootImageError where the version is not a u32."""
    if not 0 <= version < 1 << 32:
        raise BootImageError(f"version {version} of a boot image is not from 0 to {(1 << 32) - 1}")
    return bytes(BootHeader(version, len(payload), zlib.crc32(payload))) + payload


def parse_boot_image(data: bytes) -> tuple[BootHeader, bytes]:
    """Take an image apart and check it; bytes past its end are ignored, as in a slot."""
    header = BootHeader.from_bytes(data)
    payload = data[HEADER_BYTES : header.image_bytes]
    if len(payload) < header.length:
        raise BootImageError(
            f"the boot image has {len(payload)} bytes of payload, its header says {header.length}"
        )
    if zlib.crc32(payload) != header.crc:
        raise BootImageError("the payload of the boot image is damaged: its CRC is wrong")
    return header, payload


@dataclass(frozen=True, slots=True)
class SlotFault:
    """A slot without a valid image, and why; `empty` where it is as erased."""

    text: str
    empty: bool = False


SlotContent = BootHeader | SlotFault


class BootReason(enum.IntEnum):
    """Why that slot was booted."""

    NO_UPGRADE = 0
    UPGRADE_OLDER = 1
    UPGRADE_BROKEN = 2
    UPGRADE_NEWER = 3
    FACTORY_BROKEN = 4
    NO_IMAGE = 5


_REASON_TEXTS: Final = {
    BootReason.NO_UPGRADE: "there is no upgrade",
    BootReason.UPGRADE_OLDER: "the upgrade is older",
    BootReason.UPGRADE_BROKEN: "the upgrade is broken",
    BootReason.UPGRADE_NEWER: "the upgrade is the newest",
    BootReason.FACTORY_BROKEN: "the factory slot has no valid image",
    BootReason.NO_IMAGE: "no slot has a valid image",
}

_NO_SLOT: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class BootReport:
    """What was booted at reset: five words on the wire, a line of text for people."""

    slot: Slot | None
    """None where there was no image: the emulator boots all the same."""
    version: int
    length: int
    crc: int
    reason: BootReason

    def __bytes__(self) -> bytes:
        """Slot (0xffffffff for none), version, length, CRC and reason as u32, little-endian."""
        slot = _NO_SLOT if self.slot is None else self.slot
        return _REPORT.pack(slot, self.version, self.length, self.crc, self.reason)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the 20 bytes of a report; raises BootImageError where they are none."""
        if len(data) != _REPORT.size:
            raise BootImageError(f"a boot report has {_REPORT.size} bytes, not {len(data)}")
        slot, version, length, crc, reason = _REPORT.unpack(data)
        try:
            return cls(None if slot == _NO_SLOT else Slot(slot), version, length, crc, BootReason(reason))
        except ValueError as error:
            raise BootImageError(f"a boot report that does not exist: {error}") from error

    def __str__(self) -> str:
        if self.slot is None:
            return f"no image: {_REASON_TEXTS[self.reason]}"
        return (
            f"{self.slot.name.lower()} version {self.version}, {self.length} bytes, CRC {self.crc:08x}: "
            f"{_REASON_TEXTS[self.reason]}"
        )


NO_BOOT_IMAGE: Final = BootReport(None, 0, 0, 0, BootReason.NO_IMAGE)


def choose(factory: SlotContent, upgrade: SlotContent) -> BootReport:
    """Choose what boots: the newest valid image, of two as new the upgrade."""
    if isinstance(upgrade, BootHeader):
        if isinstance(factory, SlotFault):
            return _report(Slot.UPGRADE, upgrade, BootReason.FACTORY_BROKEN)
        if upgrade.version >= factory.version:
            return _report(Slot.UPGRADE, upgrade, BootReason.UPGRADE_NEWER)
        return _report(Slot.FACTORY, factory, BootReason.UPGRADE_OLDER)
    if isinstance(factory, SlotFault):
        return NO_BOOT_IMAGE
    return _report(
        Slot.FACTORY, factory, BootReason.NO_UPGRADE if upgrade.empty else BootReason.UPGRADE_BROKEN
    )


def _report(slot: Slot, header: BootHeader, reason: BootReason) -> BootReport:
    return BootReport(slot, header.version, header.length, header.crc, reason)


def slot_bytes(partition_bytes: int, sector_bytes: int) -> int:
    """Bytes of a slot: half of the boot partition, rounded down to whole sectors."""
    return partition_bytes // 2 // sector_bytes * sector_bytes


def build_boot_partition(
    size: int, factory: bytes = b"", upgrade: bytes = b"", *, sector_bytes: int = 4096
) -> bytes:
    """Lay out a whole boot partition of `size` bytes from boot images; what is left is erased (0xff).

    Raises BootImageError for an image that is not valid or longer than a slot;
    an empty one leaves its slot erased.
    """
    slot = slot_bytes(size, sector_bytes)
    partition = bytearray(b"\xff" * size)
    for which, image in ((Slot.FACTORY, factory), (Slot.UPGRADE, upgrade)):
        if image:
            header, _ = parse_boot_image(image)
            if header.image_bytes > slot:
                raise BootImageError(
                    f"{which.name.lower()} image of {header.image_bytes} bytes, the slot has {slot}"
                )
            partition[which * slot : which * slot + header.image_bytes] = image[: header.image_bytes]
    return bytes(partition)
