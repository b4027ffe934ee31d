"""Boards in XMOS's `.xn` files: tiles, clock, memory, flash chips and ports of a node of the xcore.ai.

Such a file describes hardware and not what runs on it: one engine, and USB and SPI, have their defaults. The
structure is that of the files of XMOS's boards, such as XCORE-AI-EXPLORER.xn: packages, nodes and tiles with
their ports, and external devices.

A file is untrusted: a large one, one that is nested deep, and a document type declaration, which could define
entities to expand, are refused.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

from aisrv.board import (
    DEFAULT_ARENA,
    DEFAULT_BOOT,
    LARGEST_EXTERNAL,
    Board,
    BoardError,
    BoardFileError,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SpiSpec,
    plan_of,
)
from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.size import KIB, Size
from aisrv.values.settings.toml_file import read_bounded
from aisrv.values.untrusted_xml import XmlError, parse_xml
from flash_server.chip.part import MX25R6435F, PARTS, SECTOR_ERASE, Erase, FlashPart
from flash_server.errors import FlashError

LARGEST_FILE: Final = 256 * KIB
"""Bytes; the files of XMOS's boards have some thousands."""
REFERENCE_CLOCK: Final = 100_000_000
"""Hertz of the reference clock that all timers here count."""
FLASH_CLASSES: Final = ("spiflash", "sqiflash", "qspiflash")

_NODE_TYPE: Final = re.compile(r"xs3-l[0-9]+a-([0-9]{1,5})", re.IGNORECASE | re.ASCII)
_FREQUENCY: Final = re.compile(r"([0-9]{1,12})(?:\.0+)?\s*([mk]?)hz", re.IGNORECASE | re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_FACTORS: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def read_xn(path: Path) -> Board:
    """Read a board from an `.xn` file. Raises BoardFileError, which names the file and the line."""
    try:
        data = read_bounded(path, LARGEST_FILE)
    except SettingsError as error:
        raise BoardFileError(str(error)) from None
    return parse_xn(data, str(path))


def parse_xn(data: bytes, name: str = "board.xn") -> Board:
    """Read a board from the `data` of an `.xn` file that messages call `name`. Raises BoardFileError."""
    try:
        network, lines = parse_xml(data)
    except XmlError as error:
        raise BoardFileError(f"{name}:{error.line}: {error}") from None
    try:
        board = _board(network)
        plan_of(board).check()
    except _ElementError as error:
        raise BoardFileError(f"{name}:{lines[error.element]}: {error}") from None
    except BoardError as error:
        raise BoardFileError(f"{name}: {error}") from None
    return board


class _ElementError(Exception):
    """An error at an element of the file."""

    def __init__(self, element: Element, message: str) -> None:
        super().__init__(f"{element.tag}: {message}")
        self.element = element


def _board(network: Element) -> Board:
    if network.tag != "network":
        raise _ElementError(network, "an .xn file is a Network")
    node = _node(network)
    numbers = _tile_numbers(node)
    tiles = len(numbers)
    internal = _internal_kib(node, tiles)
    last = tiles - 1
    engine = EngineSpec(
        arena_bytes=min(DEFAULT_ARENA, internal * KIB * 7 // 8), external_bytes=_external_bytes(node)
    )
    return Board(
        engines=(engine,),
        tiles=tiles,
        usb_tile=_usb_tile(node, last),
        core_clock_mhz=_clock_mhz(node),
        internal_kib=internal,
        spi=SpiSpec(tile=last),
        flashes=tuple(_flash(device) for device in network.iter("device") if _is_flash(device, node)),
        ports=tuple(_ports(node)),
        description=(network.findtext("name") or "").strip(),
    )


def _node(network: Element) -> Element:
    """Find the one node that is a chip; debuggers are nodes too, of the type "device:"."""
    nodes = [each for each in network.iter("node") if not (_get(each, "type") or "").startswith("device:")]
    if len(nodes) != 1:
        raise _ElementError(nodes[1] if nodes else network, f"{len(nodes)} nodes, a board here has one")
    return nodes[0]


def _tile_numbers(node: Element) -> list[int]:
    tiles = list(node.iter("tile"))
    numbers = sorted({_whole(tile, "number") for tile in tiles})
    if numbers not in ([0], [0, 1]):
        raise _ElementError(node, f"tiles {', '.join(map(str, numbers)) or 'none'}; a node has 0, or 0 and 1")
    return numbers


def _internal_kib(node: Element, tiles: int) -> int:
    """Return the memory of a tile, from the type: XS3-L16A-1024 has 1024 KiB in all."""
    node_type = _get(node, "type")
    match = _NODE_TYPE.fullmatch(node_type or "")
    if match is None:
        raise _ElementError(node, f"the type {node_type!r} is not an xcore.ai, such as 'XS3-L16A-1024'")
    return int(match[1]) // tiles


def _clock_mhz(node: Element) -> int:
    reference = _frequency(node, "referencefrequency", REFERENCE_CLOCK)
    if reference != REFERENCE_CLOCK:
        raise _ElementError(node, f"a reference clock of {reference} Hz, it is {REFERENCE_CLOCK} here")
    clock = _frequency(node, "systemfrequency", Board().core_clock_mhz * 1_000_000)
    if clock % 1_000_000:
        raise _ElementError(node, f"a core clock of {clock} Hz is not whole MHz")
    return clock // 1_000_000


def _external_bytes(node: Element) -> int:
    """Return the external memory, as much as an engine can have; a node without the element has none."""
    memories = list(node.iter("extmem"))
    size = sum(_whole(memory, "sizembit") for memory in memories) * KIB * KIB // 8
    return min(size, LARGEST_EXTERNAL)


def _usb_tile(node: Element, default: int) -> int:
    """Find the tile that is called so, or that has ports for USB."""
    for tile in node.iter("tile"):
        names = [_get(port, "name") or "" for port in tile.iter("port")]
        if _get(tile, "reference") == "usb_tile" or any("USB" in name.upper() for name in names):
            return _whole(tile, "number")
    return default


def _ports(node: Element) -> list[PortSpec]:
    return [
        PortSpec(_whole(tile, "number"), _text(port, "location"), _text(port, "name"))
        for tile in node.iter("tile")
        for port in tile.iter("port")
    ]


def _is_flash(device: Element, node: Element) -> bool:
    of_node = _get(device, "nodeid") in (None, _get(node, "id"))
    return of_node and (_get(device, "class") or "").lower() in FLASH_CLASSES


def _flash(device: Element) -> FlashSpec:
    try:
        part = _part(device)
    except FlashError as error:
        raise _ElementError(device, str(error)) from None
    tile = _whole(device, "tile") if _get(device, "tile") else 0
    return FlashSpec(part, tile=tile, boot_bytes=Size(min(DEFAULT_BOOT, part.size)))


def _part(device: Element) -> FlashPart:
    """Find the part by its name, with the file's changes."""
    name = _get(device, "type") or MX25R6435F.name
    part = PARTS.get(name.upper(), replace(MX25R6435F, name=name))
    page = _whole(device, "pagesize") if _get(device, "pagesize") else part.page_size
    size = _whole(device, "numpages") * page if _get(device, "numpages") else part.size
    erases = part.erases
    if _get(device, "sectorsize") and (sector := _whole(device, "sectorsize")) != part.sector_size:
        larger = tuple(erase for erase in erases if erase.size > sector)
        erases = (Erase(SECTOR_ERASE, sector, part.erases[0].seconds), *larger)
    jedec_id = part.jedec_id
    if size != part.size:
        jedec_id = (
            jedec_id & 0xFFFF00 | max(size.bit_length() - 1, 0) & 0xFF
        )  # its last byte is log2 of the bytes
    return replace(part, page_size=page, size=size, erases=erases, jedec_id=jedec_id)


# Attributes.


def _get(element: Element, attribute: str) -> str | None:
    return element.get(attribute, "").strip() or None


def _text(element: Element, attribute: str) -> str:
    value = _get(element, attribute)
    if value is None:
        raise _ElementError(element, f"it has no attribute {attribute}")
    return value


def _whole(element: Element, attribute: str) -> int:
    value = _text(element, attribute)
    if _WHOLE.fullmatch(value) is None:
        raise _ElementError(element, f"{attribute} {value!r} is not a whole number")
    return int(value)


def _frequency(element: Element, attribute: str, default: int) -> int:
    value = _get(element, attribute)
    if value is None:
        return default
    match = _FREQUENCY.fullmatch(value)
    if match is None:
        raise _ElementError(element, f"{attribute} {value!r} is not a frequency, such as '600MHz'")
    return int(match[1]) * _FACTORS[match[2].lower()]
