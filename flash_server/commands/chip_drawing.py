"""The output of `inspect` and `verify` for a whole chip: a table, a map, and JSON."""

from typing import Final

from msgspec.structs import asdict

from flash_server.boot.boot_image import BootHeader, Slot, SlotContent, slot_bytes
from flash_server.commands.chip_contents import SECTOR, ChipContents, Extent
from flash_server.commands.drawing import FREE, HEADERS, PARTS, Cell, describe, new_console, show_map
from flash_server.image import Part
from flash_server.image.image_file import Image

_LETTERS: Final = {
    "factory": ("F", "factory image"),
    "upgrade": ("U", "upgrade image"),
    "headers": (HEADERS, "headers"),
    "model": (PARTS[Part.MODEL], "model"),
    "parameters": (PARTS[Part.PARAMETERS], "parameters"),
    "operators": (PARTS[Part.OPERATORS], "operators"),
    "xip": (PARTS[Part.XIP], "execute in place"),
    "journal": ("J", "journal"),
    "settings": ("S", "settings"),
    "other": ("?", "other bytes"),
}
"""Letter in the map, and its meaning, of each kind of extent."""
_JOURNALS: Final = {
    "change": "a change of the image, which a device makes when it starts",
    "claim": "of a write that was cut off, which the next one clears",
}


def describe_chip(chip: ChipContents) -> dict[str, object]:
    """Return all about a chip, for JSON: addresses count from its start, offsets from the image's."""
    size = slot_bytes(chip.boot_bytes, SECTOR)
    slots = zip(Slot, chip.slots, strict=True)
    return {
        "file": str(chip.path),
        "kind": "chip",
        "part": chip.part,
        "size": len(chip.data),
        "erased": chip.is_erased,
        "boot": {
            "start": 0,
            "size": chip.boot_bytes,
            "slots": [_describe_slot(slot, slot * size, content) for slot, content in slots],
            "boots": {**asdict(chip.boots), "text": str(chip.boots)},
        },
        "data": {
            "start": chip.boot_bytes,
            "size": len(chip.data) - chip.boot_bytes,
            "image": None if chip.image is None else describe(chip.image),
            "no_image": chip.no_image or None,
            "journal": chip.journal or None,
        },
        "taken": [
            {"kind": each.kind, "engine": each.engine, "start": each.start, "size": each.end - each.start}
            for each in chip.extents
        ],
        "free": [{"start": each.start, "size": len(each)} for each in chip.free],
    }


def show_chip(chip: ChipContents) -> None:
    """Print the boot slots, the image, what else is there and what is free, and a map of all."""
    from rich import box
    from rich.table import Table

    console = new_console()
    part = chip.part or "a chip"
    erased = ", erased: all bytes are FF" if chip.is_erased else ""
    console.print(f"{chip.path}: {part}, {len(chip.data)} bytes{erased}")
    console.print(f"boot: {chip.boots}")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("address", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("holds")
    for start, size, text in sorted(_rows(chip), key=lambda row: row[0]):
        table.add_row(f"{start:#08x}", str(size), text)
    console.print(table)
    free, longest = sum(map(len, chip.free)), max(chip.free, key=len, default=range(0))
    console.print(
        f"\nfree: {free} bytes in whole sectors; the longest stretch is {len(longest)} bytes from "
        f"{longest.start:#x} on"
        if free
        else "\nfree: no sector"
    )
    cells: list[tuple[int, int, Cell]] = [
        (each.start, each.end, (_LETTERS[each.kind][0], each.engine)) for each in chip.extents
    ]
    kinds = {each.kind for each in chip.extents}
    legend = [f"{letter} {text}" for kind, (letter, text) in _LETTERS.items() if kind in kinds]
    show_map(cells, len(chip.data), ", ".join([*legend, f"{FREE} FF"]), console)


def chip_summary(chip: ChipContents) -> str:
    """Describe a chip in a few words."""
    image = "no image" if chip.image is None else _image_text(chip.image)
    return f"{chip.part or 'a chip'}; boot: {chip.boots}; data partition: {image}"


def _image_text(image: Image) -> str:
    engines = len(image.map.headers)
    return f"generation {image.map.detected}, {engines} engine{'s' * (engines != 1)}"


def _rows(chip: ChipContents) -> list[tuple[int, int, str]]:
    size = slot_bytes(chip.boot_bytes, SECTOR)
    rows = [
        (slot * size, _slot_size(content, size), f"{slot.name.lower()} slot: {_slot_text(content)}")
        for slot, content in zip(Slot, chip.slots, strict=True)
    ]
    data_bytes = len(chip.data) - chip.boot_bytes
    if chip.image is None:
        rows.append((chip.boot_bytes, data_bytes, f"data partition: no image, {chip.no_image}"))
    else:
        rows.append((chip.boot_bytes, data_bytes, f"data partition: {_image_text(chip.image)}"))
    inside = (each for each in chip.extents if each.kind not in ("factory", "upgrade"))
    rows.extend((each.start, each.end - each.start, f"  {_extent_text(chip, each)}") for each in inside)
    return rows


def _extent_text(chip: ChipContents, each: Extent) -> str:
    if each.engine is not None:
        return f"engine {each.engine}: {each.kind}"
    if each.kind == "journal":
        return f"journal: {_JOURNALS[chip.journal]}"
    return "other bytes" if each.kind == "other" else each.kind


def _slot_size(content: SlotContent, size: int) -> int:
    return content.image_bytes if isinstance(content, BootHeader) else size


def _slot_text(content: SlotContent) -> str:
    if isinstance(content, BootHeader):
        return f"version {content.version}, CRC {content.crc:08x}"
    return "no boot image" if content.empty else content.text


def _describe_slot(slot: Slot, start: int, content: SlotContent) -> dict[str, object]:
    known: dict[str, object] = {"slot": slot.name.lower(), "start": start}
    if isinstance(content, BootHeader):
        sizes = {"version": content.version, "length": content.length, "crc": content.crc}
        return {**known, "state": "valid", **sizes}
    if content.empty:
        return {**known, "state": "empty"}
    return {**known, "state": "foreign" if content.foreign else "damaged", "text": content.text}
