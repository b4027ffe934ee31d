"""Boot images as values: a header of ours before opaque bytes, and the choice between the two slots at reset.

The boot partition has a factory slot at 0 and an upgrade slot at its half. Header, 24 bytes, little-endian:
magic "XSRV", u16 header version 1, u16 kind 1 (a server), u32 image version, u32 payload bytes, u32 CRC-32 of
the payload, u32 CRC-32 of the 20 bytes before. The format is ours; the payload is not looked into.
"""

import enum
import zlib
from dataclasses import dataclass
from typing import Annotated, Final, Self

from aisrv.values.packet import U16, U32, Packet, Wire
from flash_server.errors import FlashError

MAGIC: Final = b"XSRV"
HEADER_VERSION: Final = 1
SERVER_KIND: Final = 1


class BootImageError(FlashError):
    """Bytes that are not a boot image, or an image that does not fit; the message says what is wrong."""


class Slot(enum.IntEnum):
    """Place of an image."""

    FACTORY = 0
    """The image that the board was made with."""
    UPGRADE = 1
    """The image that a host sent."""


class BootPacket(Packet, byte_order="<", error=BootImageError):
    """Base of the packets of a boot partition, and of its report."""


class BootHeader(BootPacket, kw_only=True, name="the header of a boot image"):
    """The header of an image, but for its own CRC-32, which follows."""

    magic: Annotated[bytes, Wire("4s")] = MAGIC
    header_version: U16 = HEADER_VERSION
    """Version of the layout."""
    kind: U16 = SERVER_KIND
    version: U32
    """Counts up; the larger is the newer."""
    length: U32
    """Bytes of the payload."""
    crc: U32
    """CRC-32 of the payload."""

    def __bytes__(self) -> bytes:
        fields = Packet.__bytes__(self)
        return fields + zlib.crc32(fields).to_bytes(4, "little")

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Parse the first HEADER_BYTES of `data`. Raises BootImageError."""
        if len(data) < HEADER_BYTES:
            raise BootImageError(
                f"a boot image has {HEADER_BYTES} bytes of header, this one {len(data)} in all"
            )
        header = cls.unpack_from(data)
        if header.magic != MAGIC:
            raise BootImageError(f"a boot image begins with {MAGIC!r}, this one with {header.magic!r}")
        if int.from_bytes(data[cls.SIZE : HEADER_BYTES], "little") != zlib.crc32(data[: cls.SIZE]):
            raise BootImageError("the header of the boot image is damaged: its CRC is wrong")
        if (header.header_version, header.kind) != (HEADER_VERSION, SERVER_KIND):
            raise BootImageError(
                f"the boot image is of header version {header.header_version} and kind {header.kind}; "
                f"known are version {HEADER_VERSION}, kind {SERVER_KIND}"
            )
        return header

    @property
    def image_bytes(self) -> int:
        """Bytes of header and payload."""
        return HEADER_BYTES + self.length


HEADER_BYTES: Final = BootHeader.SIZE + 4


def build_boot_image(version: int, payload: bytes) -> bytes:
    """Put the header before a payload. Raises BootImageError unless the version is a u32."""
    if not 0 <= version < 1 << 32:
        raise BootImageError(f"version {version} of a boot image is not from 0 to {(1 << 32) - 1}")
    return bytes(BootHeader(version=version, length=len(payload), crc=zlib.crc32(payload))) + payload


def parse_boot_image(data: bytes) -> tuple[BootHeader, bytes]:
    """Parse and check the image at the start of `data`, as in a slot. Raises BootImageError."""
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
    """A slot without a valid image, and the reason."""

    text: str
    empty: bool = False
    """Whether it is erased."""
    foreign: bool = False
    """Whether it holds something else than a boot image: another system's loader, for example."""


SlotContent = BootHeader | SlotFault


class BootReason(enum.IntEnum):
    """The reason that a slot was booted."""

    NO_UPGRADE = 0
    """The upgrade slot is empty; the factory image boots."""
    UPGRADE_OLDER = 1
    """The factory image is newer."""
    UPGRADE_BROKEN = 2
    """The upgrade image is damaged; the factory image boots."""
    UPGRADE_NEWER = 3
    """The upgrade image is as new, or newer."""
    FACTORY_BROKEN = 4
    """The factory image is missing or damaged; the upgrade image boots."""
    NO_IMAGE = 5
    """Neither slot has a valid image."""
    NO_SLOTS = 6
    """The partition is empty, or holds something else than boot images."""


_REASON_TEXTS: Final = {
    BootReason.NO_UPGRADE: "there is no upgrade",
    BootReason.UPGRADE_OLDER: "the upgrade is older",
    BootReason.UPGRADE_BROKEN: "the upgrade is broken",
    BootReason.UPGRADE_NEWER: "the upgrade is the newest",
    BootReason.FACTORY_BROKEN: "the factory slot has no valid image",
    BootReason.NO_IMAGE: "no slot has a valid image",
    BootReason.NO_SLOTS: "the boot partition is empty, or has no slots of this kind",
}

_NO_SLOT: Final = 0xFFFFFFFF


def _slot(number: int) -> Slot | None:
    return None if number == _NO_SLOT else Slot(number)


def _slot_number(slot: Slot | None) -> int:
    return _NO_SLOT if slot is None else slot


class BootReport(BootPacket, name="a boot report"):
    """The boot report: five words on the wire, a line of text for people."""

    slot: Annotated[Slot | None, Wire("I", _slot, _slot_number)]
    """Booted slot; None, 0xffffffff on the wire, if there was no image: the emulator boots all the same."""
    version: U32
    """Version of the image."""
    length: U32
    """Bytes of its payload."""
    crc: U32
    """CRC-32 of its payload."""
    reason: Annotated[BootReason, Wire("I", BootReason)]
    """Reason of the choice."""

    def __str__(self) -> str:
        if self.reason is BootReason.NO_SLOTS:
            return f"no boot images: {_REASON_TEXTS[self.reason]}"
        if self.slot is None:
            return f"no image: {_REASON_TEXTS[self.reason]}"
        return (
            f"{self.slot.name.lower()} version {self.version}, {self.length} bytes, CRC {self.crc:08x}: "
            f"{_REASON_TEXTS[self.reason]}"
        )


REPORT_BYTES: Final = BootReport.SIZE

NO_BOOT_IMAGE: Final = BootReport(None, 0, 0, 0, BootReason.NO_IMAGE)
"""Report of a damaged partition."""

NO_BOOT_SLOTS: Final = BootReport(None, 0, 0, 0, BootReason.NO_SLOTS)
"""Report of a partition without boot images, which is not a fault."""


def choose(factory: SlotContent, upgrade: SlotContent) -> BootReport:
    """Choose what boots: the newest valid image, of two as new the upgrade."""
    if isinstance(upgrade, BootHeader):
        if isinstance(factory, SlotFault):
            return _report(Slot.UPGRADE, upgrade, BootReason.FACTORY_BROKEN)
        if upgrade.version >= factory.version:
            return _report(Slot.UPGRADE, upgrade, BootReason.UPGRADE_NEWER)
        return _report(Slot.FACTORY, factory, BootReason.UPGRADE_OLDER)
    if isinstance(factory, SlotFault):
        unused = all(slot.empty or slot.foreign for slot in (factory, upgrade))
        return NO_BOOT_SLOTS if unused else NO_BOOT_IMAGE
    return _report(
        Slot.FACTORY, factory, BootReason.NO_UPGRADE if upgrade.empty else BootReason.UPGRADE_BROKEN
    )


def _report(slot: Slot, header: BootHeader, reason: BootReason) -> BootReport:
    return BootReport(slot, header.version, header.length, header.crc, reason)


def slot_bytes(partition_bytes: int, sector_bytes: int) -> int:
    """Return the bytes of a slot: half of the boot partition, rounded down to whole sectors."""
    return partition_bytes // 2 // sector_bytes * sector_bytes


def slot_start(partition_bytes: int, sector_bytes: int, slot: Slot, image_bytes: int) -> int:
    """Return the start of a slot. Raises BootImageError if an image of that many bytes does not fit in."""
    size = slot_bytes(partition_bytes, sector_bytes)
    if image_bytes > size:
        raise BootImageError(f"{slot.name.lower()} image of {image_bytes} bytes, the slot has {size}")
    return slot * size


def build_boot_partition(
    size: int, factory: bytes = b"", upgrade: bytes = b"", *, sector_bytes: int = 4096
) -> bytes:
    """Lay out a whole boot partition of `size` bytes from boot images; the rest is erased (0xff).

    Raises BootImageError for an image that is not valid or longer than a slot; an empty one leaves its slot
    erased. `sector_bytes` is the size of a sector of the chip.
    """
    partition = bytearray(b"\xff" * size)
    for slot, image in ((Slot.FACTORY, factory), (Slot.UPGRADE, upgrade)):
        if image:
            end = parse_boot_image(image)[0].image_bytes
            start = slot_start(size, sector_bytes, slot, end)
            partition[start : start + end] = image[:end]
    return bytes(partition)


def report_of(partition: bytes, sector_bytes: int) -> BootReport:
    """Return what the partition boots, chosen as at reset."""
    size = slot_bytes(len(partition), sector_bytes)
    return choose(*(slot_content(partition[slot * size : (slot + 1) * size]) for slot in Slot))


def slot_content(slot: bytes) -> SlotContent:
    """Read and check the image in the bytes of a slot."""
    header = slot_header(slot[:HEADER_BYTES])
    if isinstance(header, SlotFault):
        return header
    try:
        return parse_boot_image(slot)[0]
    except BootImageError as error:
        return SlotFault(str(error))


def slot_header(start: bytes) -> SlotContent:
    """Read the header from the first HEADER_BYTES of a slot; the payload is not looked at."""
    if len(start) < HEADER_BYTES:
        return SlotFault("the boot partition has no room for slots", empty=True)
    if start == b"\xff" * HEADER_BYTES:
        return SlotFault("erased", empty=True)
    try:
        return BootHeader.from_bytes(start)
    except BootImageError as error:
        return SlotFault(str(error), foreign=not start.startswith(MAGIC))
