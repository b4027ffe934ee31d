"""Boards in TOML files: a table for each part, see docs/guides/boards.md.

A file says what is on the board; what a table leaves out has its default. Whatever is wrong is reported with
the file, the line and the setting: `board.toml:12: engines[1].arena: ...`.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aisrv.board import (
    BOOT_MEMORIES,
    KIB,
    Board,
    BoardError,
    BoardFileError,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SensorSpec,
    SpiSpec,
    UsbProtocol,
    plan_of,
    toml_lines,
)
from aisrv.board.toml_settings import (
    Keys,
    Read,
    Setting,
    Source,
    choice_of,
    read_boolean,
    read_elements,
    read_integer,
    read_kib,
    read_megahertz,
    read_number,
    read_path,
    read_size,
    read_table,
    read_text,
    read_texts,
    shown,
    unknown,
)
from flash_server.chip.part import PARTS, Erase, FlashPart, part_named
from flash_server.client.cache import CacheGeometry
from flash_server.errors import FlashError

LARGEST_FILE: Final = 64 * KIB
"""Bytes; a board takes a few hundred."""

_POSITION: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_bounded(path: Path, largest: int) -> bytes:
    """Read a file of at most `largest` bytes. Raises BoardFileError where it cannot be had or is larger."""
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as error:
        raise BoardFileError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise BoardFileError(f"{str(path)!r}: {error}") from None
    if len(data) > largest:
        raise BoardFileError(f"{path}: more than {largest} bytes describe no board")
    return data


def read_board(path: Path) -> Board:
    """Read a board from a TOML file; paths in it are relative to its directory. Raises BoardFileError."""
    try:
        text = read_bounded(path, LARGEST_FILE).decode()
    except UnicodeDecodeError as error:
        raise BoardFileError(f"{path}: no UTF-8 at byte {error.start}") from None
    return parse_board(text, str(path), path.parent)


def parse_board(text: str, name: str = "board.toml", directory: Path = Path()) -> Board:
    """Read a board from TOML text; `name` is what messages call it. Raises BoardFileError."""
    text = text.replace("\r\n", "\n")
    try:
        values = tomllib.loads(text)
        source = Source(name, directory, toml_lines.lines_of(text))
    except RecursionError:
        raise BoardFileError(f"{name}: nested too deep") from None
    except ValueError as error:
        raise BoardFileError(_syntax_error(name, text, str(error))) from None
    changes: dict[str, Any] = {"spi": None}
    for table, read in _TABLES.items():
        if table in values:
            changes |= read(Setting(source, (table,), values.pop(table)))
    for key in values:
        raise Setting(source, (key,), None).wrong(unknown(key, _TABLES))
    try:
        board = Board(**changes)
        plan_of(board).check()
    except BoardError as error:
        raise source.wrong(str(error), error.setting) from None
    return board


def _syntax_error(name: str, text: str, message: str) -> str:
    match = _POSITION.search(message)
    if match is None:
        return f"{name}: {message}"
    line = match[1] or text.count("\n") + 1
    return f"{name}:{line}: {message[: match.start()]}"


# The tables of a board.

_ENGINE: Final[Keys] = {
    "tile": ("tile", read_integer),
    "kind": ("kind", read_text),
    "arena": ("arena_bytes", read_size),
    "external": ("external_bytes", read_size),
    "threads": ("threads", read_integer),
    "chain": ("chain_to", read_integer),
    "flash": ("flash", read_integer),
    "boot": ("boot", choice_of(BOOT_MEMORIES)),
    "cache": ("cache", lambda setting: _cache(setting)),
    "sensor": ("sensor", read_boolean),
    "leds": ("leds", read_texts),
}
_CACHE: Final[Keys] = {
    "size": ("size", read_size),
    "ways": ("ways", read_integer),
    "line": ("line_bytes", read_size),
}
_NODE: Final[Keys] = {
    "tiles": ("tiles", read_integer),
    "clock": ("core_clock_mhz", read_integer),
    "memory": ("internal_kib", read_kib),
}
_USB: Final[Keys] = {
    "tile": ("usb_tile", read_integer),
    "serial": ("serial", read_text),
    "protocol": ("protocol", choice_of({protocol.value: protocol for protocol in UsbProtocol})),
    "port": ("usb_port", read_integer),
}
_SPI: Final[Keys] = {
    "tile": ("tile", read_integer),
    "engine": ("engine", read_integer),
    "port": ("port", read_integer),
}
_FLASH: Final[Keys] = {
    "part": ("part", lambda setting: _part(setting)),
    "tile": ("tile", read_integer),
    "file": ("path", read_path),
    "boot_size": ("boot_bytes", read_size),
    "port": ("port", read_integer),
}
_PART: Final[Keys] = {
    "name": ("name", read_text),
    "size": ("size", read_size),
    "jedec_id": ("jedec_id", read_integer),
    "page_size": ("page_size", read_size),
    "erases": ("erases", lambda setting: read_elements(setting, _erase, "an array of tables stands")),
    "clock": ("largest_clock_hz", read_megahertz),
    "page_program": ("page_program_seconds", read_number),
    "chip_erase": ("chip_erase_seconds", read_number),
    "write_status": ("write_status_seconds", read_number),
}
_ERASE: Final[Keys] = {
    "opcode": ("opcode", read_integer),
    "size": ("size", read_size),
    "seconds": ("seconds", read_number),
}
_SENSOR: Final[Keys] = {
    "tile": ("tile", read_integer),
    "source": ("source", read_text),
    "encoding": ("encoding", read_text),
    "width": ("width", read_integer),
    "height": ("height", read_integer),
    "rate": ("rate", read_number),
    "registers": ("registers", read_text),
}
_PORT: Final[Keys] = {
    "tile": ("tile", read_integer),
    "location": ("location", read_text),
    "name": ("name", read_text),
}


def _engine(setting: Setting) -> EngineSpec:
    return EngineSpec(**read_table(setting, _ENGINE))


def _flash(setting: Setting) -> FlashSpec:
    return FlashSpec(**read_table(setting, _FLASH))


def _port(setting: Setting) -> PortSpec:
    return PortSpec(**read_table(setting, _PORT, ("tile", "location", "name")))


def _erase(setting: Setting) -> Erase:
    return Erase(**read_table(setting, _ERASE, tuple(_ERASE)))


def _cache(setting: Setting) -> CacheGeometry:
    try:
        return CacheGeometry(**read_table(setting, _CACHE))
    except FlashError as error:
        raise setting.wrong(str(error)) from None


def _part(setting: Setting) -> FlashPart:
    try:
        if isinstance(setting.value, str):
            return part_named(setting.value)
        if isinstance(setting.value, dict):
            return FlashPart(**read_table(setting, _PART, ("name", "size", "jedec_id")))
    except FlashError as error:
        raise setting.wrong(str(error)) from None
    raise setting.wrong(f"{shown(setting.value)} where a part stands: {', '.join(PARTS)}, or a table")


def _spi(setting: Setting) -> SpiSpec:
    return SpiSpec(**read_table(setting, _SPI))


def _sensor(setting: Setting) -> SensorSpec:
    return SensorSpec(**read_table(setting, _SENSOR, ("tile", "source")), folder=setting.source.directory)


def _array(setting: Setting, read: Read) -> tuple[Any, ...]:
    return read_elements(setting, read, f"[[{setting.path[0]}]] stands, a table for each")


_TABLES: Final[Mapping[str, Callable[[Setting], dict[str, Any]]]] = {
    "description": lambda setting: {"description": read_text(setting)},
    "node": lambda setting: read_table(setting, _NODE),
    "usb": lambda setting: read_table(setting, _USB),
    "spi": lambda setting: {"spi": _spi(setting)},
    "engines": lambda setting: {"engines": _array(setting, _engine)},
    "flash": lambda setting: {"flashes": _array(setting, _flash)},
    "sensor": lambda setting: {"sensor": _sensor(setting)},
    "ports": lambda setting: {"ports": _array(setting, _port)},
}
"""What each table at the top gives to the board."""
