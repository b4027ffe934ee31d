"""The words of scripts: their bit-fields, registers, types and constants. `table` has the instructions."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

NO_REGISTER: Final = 12
STACK_TOP: Final = 14
STACK_PUSH: Final = 15
REGISTERS: Final = {**{f"r{index}": index for index in range(12)}, "sp": 14, "sp0": 14, "sp1": 15}
REGISTER_NAMES: Final = {**{index: f"r{index}" for index in range(12)}, 14: "sp0", 15: "sp1"}

SHORT_LOWEST: Final = -2016
SHORT_HIGHEST: Final = 2047
_BIAS: Final = 2048
NO_VALUE: Final = _BIAS
"""K12 of the constant 0, which stands where an instruction has no value."""
LONG: Final = 0x010
LONG_PUBLIC: Final = 0x810
LABEL_VALUE: Final = 0x014
"""K12 of `set … param`, `heap` and `graph`: the value is in the next word."""


class Condition(IntEnum):
    """Condition of an instruction."""

    ALWAYS = 0
    IF_YES = 1
    IF_NO = 2


class Type(IntEnum):
    """DTYPE: type by which a register's value is read."""

    UINT8 = 0
    UINT16 = 1
    INT16 = 2
    UINT32 = 3
    INT32 = 4
    FP16 = 5
    FLOAT = 6
    TIME32 = 7
    PTR28 = 8


TYPE_NAMES: Final = {each.name.lower(): each for each in Type}
TYPE_BYTES: Final = {
    Type.UINT8: 1, Type.UINT16: 2, Type.INT16: 2, Type.UINT32: 4, Type.INT32: 4,
    Type.FP16: 2, Type.FLOAT: 4, Type.TIME32: 4, Type.PTR28: 4,
}  # fmt: skip
FLOATS: Final = (Type.FP16, Type.FLOAT)
UNSIGNED: Final = (Type.UINT8, Type.UINT16, Type.UINT32, Type.TIME32, Type.PTR28)

TESTS: Final = {"equ": 0, "leq": 1, "lt": 2, "neq": 3, "geq": 4, "gt": 5}
MOVE: Final = 6
SPECIAL: Final = 7
ALU: Final = {
    "add": 1, "sub": 2, "mul": 3, "div": 4, "or": 5, "nor": 6, "and": 7, "xor": 8, "shr": 9, "shl": 10,
    "set": 11, "clr": 12, "max": 13, "min": 14, "amax": 15, "amin": 16, "norm": 17,
    "addmod": 18, "submod": 19,
}  # fmt: skip


class Special(IntEnum):
    """OPAR of the instructions with OP 7."""

    SET_TYPE = 0
    SET_TYPEPTR = 1
    SET_BASE = 2
    SET_SIZE = 3
    SET_PARAM = 4
    SET_HEAP = 5
    SET_GRAPH = 6
    STORE = 7
    LOAD = 8
    INSERT_BITS = 9
    EXTRACT_BITS = 10
    SWAP = 11
    DELETE = 12
    JUMP = 13
    BANZ = 14
    CALL = 15
    CALLSYS = 16
    SAVE = 17
    RESTORE = 18
    RETURN = 19


UPDATE: Final = 1 << 13
PRE: Final = 1 << 12
JUMP_BITS: Final = 3 << 12


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded word. SRC3, SRC4, SRC2 and K12 overlap: `low` is bits 13:0."""

    condition: int
    op: int
    opar: int
    dst: int
    src1: int
    low: int

    @classmethod
    def from_word(cls, word: int) -> Self:
        return cls(
            word >> 30, word >> 27 & 7, word >> 22 & 31, word >> 18 & 15, word >> 14 & 15, word & 0x3FFF
        )

    def word(self) -> int:
        head = self.condition << 30 | self.op << 27 | self.opar << 22
        return head | self.dst << 18 | self.src1 << 14 | self.low

    @property
    def k12(self) -> int:
        """Bits 11:0."""
        return self.low & 0xFFF

    @property
    def src2(self) -> int:
        """Bits 3:0."""
        return self.low & 15

    @property
    def src3(self) -> int:
        """Bits 13:10."""
        return self.low >> 10

    @property
    def src4(self) -> int:
        """Bits 9:6."""
        return self.low >> 6 & 15

    @property
    def constant(self) -> int | None:
        """Short constant of K12; None if it names a register or the next word."""
        return self.k12 - _BIAS if self.k12 >= 1 << 5 else None


def short(value: int) -> int:
    """Return K12 of a short constant."""
    return value + _BIAS


def is_short(value: int) -> bool:
    return SHORT_LOWEST <= value <= SHORT_HIGHEST


def value_bits(value: float, kind: Type) -> int:
    """Return the 32 bits of a literal. Raises OverflowError."""
    if kind == Type.FLOAT:
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return bits
    if kind == Type.FP16:
        half: int = struct.unpack("<H", struct.pack("<e", value))[0]
        return half
    size = 8 * TYPE_BYTES[kind]
    if value != int(value) or not -(1 << (size - 1)) <= value < 1 << size:
        raise OverflowError
    return int(value) & (1 << size) - 1
