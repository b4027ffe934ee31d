"""Conversion of a linked ELF file to an image: .rel made of its relocations, the weights behind it.

Every address that the code gets of .data must be relocatable: R_ARM_ABS32 in .data goes into .rel, one in
.text or .rodata cannot be installed and is an error, as is code that reaches data relative to the pc.
"""

import io
import struct
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from aisrv.model.relocatable.container import RAM, ROM, Header, Image, align4, offset
from aisrv.model.relocatable.errors import BuildError
from aisrv.values.extras import import_failure

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_ABS32: Final = 2
_REL32: Final = 3
_NO_MATTER: Final = (".header", ".debug", ".comment", ".ARM")
_LOADED: Final = (".header", ".text", ".rodata", ".data")


def pack_image(elf: bytes, weights: bytes) -> bytes:
    """Pack the image; `weights` is empty for one whose weights are in a file of their own."""
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise BuildError(import_failure("packing needs pyelftools", error, "relocatable")) from error

    try:
        file = ELFFile(io.BytesIO(elf))
        body, targets = _body(file), sorted(set(_relocated(file)))
    except ELFError as error:
        raise BuildError(f"the linked file cannot be read: {error}") from error
    header = Header.unpack_from(body)
    expected = align4(offset(header.data_data)) + offset(header.got_end)
    if len(body) != expected:
        raise BuildError(f"the linked file has {len(body)} bytes, its header says {expected}")
    rel = struct.pack(f"<{len(targets)}I", *targets)
    rel_start = len(body)
    rel_end = rel_start + len(rel)
    ends = [rel_start, rel_end]
    if weights:
        ends += [rel_end, rel_end + len(weights)]
    words = [ROM << 28 | end for end in ends] + [0] * (4 - len(ends))
    struct.pack_into("<4I", body, _REL_START, *words)
    image = bytes(body) + rel + weights
    _ = Image.from_bytes(image)
    return image


def section_sizes(elf: bytes) -> Counter[str]:
    """Return the bytes of each section of a linked file; 0 for one that it lacks."""
    from elftools.elf.elffile import ELFFile

    return Counter({section.name: section.data_size for section in ELFFile(io.BytesIO(elf)).iter_sections()})


_REL_START: Final = 36


def _body(file: "ELFFile") -> bytearray:
    """Return header, .text, .rodata, and .data with .got, as they lie in the file."""
    body = bytearray()
    for name in _LOADED:
        section = file.get_section_by_name(name)
        if section is not None:
            body += bytes(-len(body) % 4) + section.data()
    return body


def _relocated(file: "ELFFile") -> Iterator[int]:
    """Yield the addresses of the words of .data that hold addresses."""
    from elftools.elf.relocation import RelocationSection

    for section in file.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        where = section.name.removeprefix(".rel")
        if where.startswith(_NO_MATTER):
            continue
        symbols = file.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            kind = relocation["r_info_type"]
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            if kind == _ABS32 and where == ".data":
                yield relocation["r_offset"]
            elif kind == _ABS32:
                raise BuildError(f"{_name(file, symbol)}: its address is in {where}, which is not relocated")
            elif kind == _REL32 and symbol["st_value"] >> 28 == RAM:
                raise BuildError(f"{_name(file, symbol)}: {where} reaches it relative to the pc")


def _name(file: "ELFFile", symbol: object) -> str:
    section = symbol["st_shndx"]  # type: ignore[index]  # untyped
    name = symbol.name  # type: ignore[attr-defined]
    return str(name or (file.get_section(section).name if isinstance(section, int) else section))
