"""The slots of a boot partition given as bytes: their starts, and the one that would boot. No I/O."""

from flash_server.boot.boot_image import (
    HEADER_BYTES,
    MAGIC,
    BootHeader,
    BootImageError,
    BootReport,
    Slot,
    SlotContent,
    SlotFault,
    choose,
    parse_boot_image,
    slot_bytes,
)


def slot_start(partition_bytes: int, sector_bytes: int, slot: Slot, image_bytes: int) -> int:
    """Return the start of a slot. Raises BootImageError if an image of that many bytes does not fit in."""
    size = slot_bytes(partition_bytes, sector_bytes)
    if image_bytes > size:
        raise BootImageError(f"{slot.name.lower()} image of {image_bytes} bytes, the slot has {size}")
    return slot * size


def report_of(partition: bytes, sector_bytes: int) -> BootReport:
    """Return the boot report of the partition, chosen as at reset."""
    size = slot_bytes(len(partition), sector_bytes)
    return choose(
        *(_content(partition[start : start + size]) for start in (Slot.FACTORY * size, Slot.UPGRADE * size))
    )


def _content(slot: bytes) -> SlotContent:
    if len(slot) < HEADER_BYTES:
        return SlotFault("the boot partition has no room for slots", empty=True)
    if slot[:HEADER_BYTES] == b"\xff" * HEADER_BYTES:
        return SlotFault("erased", empty=True)
    try:
        header: BootHeader = parse_boot_image(slot)[0]
    except BootImageError as error:
        return SlotFault(str(error), foreign=not slot.startswith(MAGIC))
    return header
