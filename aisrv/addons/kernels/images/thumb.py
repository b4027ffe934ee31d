"""The work of a run of Thumb instructions: how many they are, and how many bytes they load and store.

Source: Arm v7-M Architecture Reference Manual, sections A5.2 and A5.3. Conditional instructions count as
executed.
"""

import struct
from typing import Final, NamedTuple


class Work(NamedTuple):
    """Work of a run of instructions."""

    instructions: int
    bytes_moved: int


_REGISTER_OFFSET: Final = (4, 2, 1, 1, 4, 2, 1, 2)
"""Bytes of str, strh, strb, ldrsb, ldr, ldrh, ldrb, ldrsh."""


def work_of(code: bytes) -> Work:
    """Count a run of whole instructions."""
    words = struct.unpack(f"<{len(code) // 2}H", code[: len(code) // 2 * 2])
    instructions = moved = at = 0
    while at < len(words):
        first = words[at]
        if first >> 11 in (0b11101, 0b11110, 0b11111) and at + 1 < len(words):
            moved += _wide(first, words[at + 1])
            at += 2
        else:
            moved += _narrow(first)
            at += 1
        instructions += 1
    return Work(instructions, moved)


def _narrow(word: int) -> int:
    if word >> 12 == 0b0101:
        return _REGISTER_OFFSET[word >> 9 & 7]
    if word >> 13 == 0b011:
        return 1 if word >> 12 & 1 else 4
    if word >> 12 == 0b1000:
        return 2
    if word >> 12 == 0b1001 or word >> 11 == 0b01001:
        return 4
    if word >> 12 == 0b1100:
        return 4 * (word & 0xFF).bit_count()
    if word & 0xF600 == 0xB400:  # push and pop
        return 4 * (word & 0x1FF).bit_count()
    return 0


def _wide(first: int, second: int) -> int:
    if first & 0xFE40 == 0xE800:  # several registers
        return 4 * second.bit_count()
    if first & 0xFFF0 == 0xE8D0 and second & 0xFFE0 == 0xF000:  # a table of branches
        return 2 if second & 0x10 else 1
    if first & 0xFE40 == 0xE840:  # two registers, or exclusive
        return 8 if first & 0x0120 else 4
    if first & 0xFE00 == 0xF800:
        return 1 << (first >> 5 & 3)
    if first & 0xEE00 == 0xEC00 and second >> 9 & 7 == 0b101:  # of the FPU
        if first & 0x0120 == 0x0100:
            return 8 if second >> 8 & 1 else 4
        return 4 * (second & 0xFF) if first & 0x01A0 else 0
    return 0
