"""Names that a program defines, from its table of symbols.

`nm` would say the same; where it loads the plugins of linkers first, it takes longer than a whole run.
Source: "Tool Interface Standard: Executable and Linking Format", sections ELF Header, Sections, Symbol Table.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from aisrv.firmware.errors import FirmwareError
from aisrv.values.regular_file import read_regular

_SYMBOLS: Final = 2
"""Type of the section that has all symbols."""


class _Layout(Struct, frozen=True):
    """Where the parts of a file of one class are, and their fields that are read."""

    header: struct.Struct
    """Offset of the table of sections, size of its rows, and their number."""
    section: struct.Struct
    """Type of a section, its offset, its size, and the section that it refers to."""
    symbol: struct.Struct
    """Offset of a symbol's name, and the section that defines it, or 0."""


_LAYOUTS: Final = {
    1: _Layout(struct.Struct("<32xI10xHH"), struct.Struct("<4xI8xIII12x"), struct.Struct("<I10xH")),
    2: _Layout(struct.Struct("<40xQ10xHH"), struct.Struct("<4xI16xQQI20x"), struct.Struct("<I2xH16x")),
}
"""By the class that the file names: 32 bits, or 64."""


def defined_in(program: Path, names: Iterable[str]) -> set[str]:
    """Return which of these names a program defines. Raises FirmwareError for a file that is none."""
    try:
        data = read_regular(program)
    except OSError as error:
        raise FirmwareError(f"{program}: {error.strerror}") from None
    layout = _LAYOUTS.get(data[4]) if data.startswith(b"\x7fELF") and len(data) > 4 else None
    if layout is None:
        raise FirmwareError(f"{program} is no program")
    try:
        return set(_defined(data, layout, names))
    except (struct.error, IndexError, OverflowError, ValueError):
        raise FirmwareError(f"{program} is no whole program") from None


def _defined(data: bytes, layout: _Layout, names: Iterable[str]) -> Iterator[str]:
    first, size, count = layout.header.unpack_from(data)
    wanted = tuple(name.encode() + b"\0" for name in names)
    sections = [layout.section.unpack_from(data, first + size * number) for number in range(count)]
    for kind, offset, length, number in sections:
        if kind != _SYMBOLS:
            continue
        _, begin, room, _ = sections[number]
        strings = data[begin : begin + room]
        for place, section in layout.symbol.iter_unpack(data[offset : offset + length]):
            if section and strings.startswith(wanted, place):
                yield strings[place : strings.index(0, place)].decode()
