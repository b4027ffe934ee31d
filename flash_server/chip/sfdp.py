"""Serial flash discoverable parameters: a part's description of itself, as a table of 32-bit words.

Source: JEDEC JESD216B, sections 6.2 (headers) and 6.4 (basic flash parameter table of 16 DWORDs). Only that
one table is there; real parts of Macronix have one of their own besides.
"""

import struct
from typing import Final

from flash_server.chip.part import Erase, FlashPart
from flash_server.errors import PartError

TABLE_OFFSET: Final = 0x30
_SIGNATURE: Final = b"SFDP"
_REVISION: Final = (6, 1)  # minor and major of JESD216B
_DWORDS: Final = 16
_NO_ERASE: Final = b"\x00\xff"

_ERASE_UNITS: Final = (0.001, 0.016, 0.128, 1.0)
_CHIP_UNITS: Final = (0.016, 0.256, 4.0, 64.0)
_PROGRAM_UNITS: Final = (8e-6, 64e-6)
_LARGEST_COUNT: Final = 32

# DWORDs that follow from the command set alone; those of the MX25R6435F.
_ERASES_4K: Final = 0xFFF120E5  # DWORD 1: 1-1-2, 1-2-2, 1-4-4 and 1-1-4 reads, 3-byte addresses, opcode 0x20
_FAST_READS: Final = (0x6B08EB44, 0xBB043B08, 0xFFFFFFEE, 0xFF00FFFF, 0xFF00FFFF)  # DWORDs 3 to 7
_REST: Final = (0x44688344, 0xB030B030, 0x5CD5C4F7, 0xFF29BE00, 0xFFFFD0F0)  # DWORDs 12 to 16
_LARGEST_ERASE_FACTOR: Final = 3  # the largest erase time is 2 * (3 + 1) times the typical one
_LARGEST_PROGRAM_FACTOR: Final = 2  # and the largest program time 2 * (2 + 1) times
_BYTE_PROGRAM: Final = 0b0000_0_1_0011  # first byte 4 x 8 us, each further one 1 us


def _encode_time(seconds: float, units: tuple[float, ...], what: str) -> int:
    """Return count and unit, of 5 bits and more: the shortest time that is not below `seconds`."""
    for number, unit in enumerate(units):
        count = max(1, -(-round(seconds * 1e9) // round(unit * 1e9)))
        if count <= _LARGEST_COUNT:
            return number << 5 | count - 1
    raise PartError(f"{what} of {seconds} s is longer than the table of parameters can state")


def _decode_time(value: int, units: tuple[float, ...]) -> float:
    return round(((value & 0x1F) + 1) * units[(value >> 5) % len(units)], 9)


def basic_table(part: FlashPart) -> bytes:
    """Build the basic flash parameter table, 64 bytes."""
    if len(part.erases) > 4:
        raise PartError(f"{part.name}: {len(part.erases)} erase commands; the table has room for 4")
    erase_times = _LARGEST_ERASE_FACTOR
    erases = bytearray()
    for number, erase in enumerate(part.erases):
        erases += bytes((erase.size.bit_length() - 1, erase.opcode))
        erase_times |= _encode_time(erase.seconds, _ERASE_UNITS, f"{part.name}: an erase") << 4 + 7 * number
    erases += _NO_ERASE * (4 - len(part.erases))
    page = _encode_time(part.page_program_seconds, _PROGRAM_UNITS, f"{part.name}: a page program")
    chip = _encode_time(part.chip_erase_seconds, _CHIP_UNITS, f"{part.name}: a chip erase")
    times = _LARGEST_PROGRAM_FACTOR | (part.page_size.bit_length() - 1) << 4 | page << 8
    times |= _BYTE_PROGRAM << 14 | chip << 24 | 1 << 31
    return struct.pack(
        "<7I8s7I", _ERASES_4K, part.size * 8 - 1, *_FAST_READS, bytes(erases), erase_times, times, *_REST
    )


def sfdp_of(part: FlashPart) -> bytes:
    """Build the answer of RDSFDP from address 0."""
    header = _SIGNATURE + bytes((*_REVISION, 0, 0xFF))
    parameter = bytes((0x00, *_REVISION, _DWORDS)) + TABLE_OFFSET.to_bytes(3, "little") + b"\xff"
    return (header + parameter).ljust(TABLE_OFFSET, b"\xff") + basic_table(part)


def part_described(identification: bytes, sfdp: bytes) -> FlashPart:
    """Read a part back from its table. Raises PartError."""
    identity = identification.hex().upper()
    if sfdp[:4] != _SIGNATURE or len(sfdp) < 16:
        raise PartError(
            f"the part with JEDEC id 0x{identity} is unknown and describes itself by no SFDP table"
        )
    offset = int.from_bytes(sfdp[12:15], "little")
    table = sfdp[offset : offset + 4 * _DWORDS]
    if sfdp[11] < _DWORDS or len(table) < 4 * _DWORDS:
        raise PartError(f"the SFDP table of the part with JEDEC id 0x{identity} is cut short")
    words = struct.unpack("<16I", table)
    erases = []
    for number in range(4):
        power, opcode = table[28 + 2 * number : 30 + 2 * number]
        if power:
            seconds = _decode_time(words[9] >> 4 + 7 * number & 0x7F, _ERASE_UNITS)
            erases.append(Erase(opcode, 1 << power, seconds))
    return FlashPart(
        name=f"SFDP-{identity}",
        size=(words[1] + 1) // 8,
        jedec_id=int.from_bytes(identification, "big"),
        page_size=1 << (words[10] >> 4 & 0xF),
        erases=tuple(sorted(erases, key=lambda erase: erase.size)),
        page_program_seconds=_decode_time(words[10] >> 8 & 0x3F, _PROGRAM_UNITS),
        chip_erase_seconds=_decode_time(words[10] >> 24 & 0x7F, _CHIP_UNITS),
    )
