"""Values of script registers: 32 bits that are read by a type, and arithmetic on them."""

import math
import operator
import struct
from collections.abc import Callable
from typing import Final

from aisrv.addons.graph.script.instructions import FLOATS, UNSIGNED, Type

Number = int | float

_SIGNED_BITS: Final = {Type.INT16: 16, Type.INT32: 32}
_UNSIGNED_BITS: Final = {Type.UINT8: 8, Type.UINT16: 16, Type.UINT32: 32, Type.TIME32: 32, Type.PTR28: 28}


def signed(value: int, bits: int = 32) -> int:
    """Return the low bits of a number as a signed one."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def number_of(bits: int, kind: Type) -> Number:
    """Return the number that 32 bits are, read by a type."""
    if kind == Type.FLOAT:
        real: float = struct.unpack("<f", struct.pack("<I", bits))[0]
        return real
    if kind == Type.FP16:
        half: float = struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]
        return half
    if kind in _SIGNED_BITS:
        return signed(bits, _SIGNED_BITS[kind])
    return bits & ((1 << _UNSIGNED_BITS[kind]) - 1)


def bits_of(value: Number, kind: Type) -> int:
    """Return the bits of a number as a type: integers wrap, floats are rounded, and truncated to integers."""
    if kind == Type.FLOAT:
        bits: int = struct.unpack("<I", struct.pack("<f", single(value)))[0]
        return bits
    if kind == Type.FP16:
        half: int = struct.unpack("<H", _half(float(value)))[0]
        return half
    size = _SIGNED_BITS.get(kind) or _UNSIGNED_BITS[kind]
    whole = integer_of(value) if isinstance(value, float) else value
    return whole & ((1 << size) - 1) if kind not in _SIGNED_BITS else signed(whole, size) & 0xFFFFFFFF


def single(value: Number) -> float:
    """Round a number to IEEE single precision."""
    try:
        real: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return real


def _half(value: float) -> bytes:
    try:
        return struct.pack("<e", value)
    except OverflowError:
        return struct.pack("<e", math.copysign(math.inf, value))


def integer_of(value: Number) -> int:
    """Return a number as 32-bit signed integer: truncated, held at the ends; NaN is 0."""
    if isinstance(value, int):
        return value
    if math.isnan(value):
        return 0
    return max(-(1 << 31), min((1 << 31) - 1, math.trunc(value) if math.isfinite(value) else _far(value)))


def _far(value: float) -> int:
    return 1 << 40 if value > 0 else -(1 << 40)


def result_type(first: Type, second: Type) -> Type:
    """Return the type of a result: fp32 with a float, u32 of two unsigned, else i32."""
    if first in FLOATS or second in FLOATS:
        return Type.FLOAT
    return Type.UINT32 if first in UNSIGNED and second in UNSIGNED else Type.INT32


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return 0
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


ARITHMETIC: Final[dict[int, Callable[[Number, Number], Number]]] = {
    1: operator.add,
    2: operator.sub,
    3: operator.mul,
    4: _divide,
    13: max,
    14: min,
    15: lambda a, b: max(abs(a), abs(b)),
    16: lambda a, b: min(abs(a), abs(b)),
}
"""ALU operations on numbers, by OPAR."""

BITWISE: Final[dict[int, Callable[[int, int], int]]] = {
    5: operator.or_,
    6: lambda a, b: ~(a | b),
    7: operator.and_,
    8: operator.xor,
    9: lambda a, b: a >> (b & 31),
    10: lambda a, b: a << (b & 31),
    11: lambda a, b: a | 1 << (b & 31),
    12: lambda a, b: a & ~(1 << (b & 31)),
}
"""ALU operations on integers, by OPAR."""

COMPARISONS: Final[dict[int, Callable[[Number, Number], bool]]] = {
    0: operator.eq,
    1: operator.le,
    2: operator.lt,
    3: operator.ne,
    4: operator.ge,
    5: operator.gt,
}
NORM: Final = 17
ADDMOD: Final = 18
SUBMOD: Final = 19
SHR: Final = 9


def normalize(value: int) -> tuple[int, int]:
    """Shift a value left until bit 31 is set; return also by how much: 0 gives 0 and 32."""
    value &= 0xFFFFFFFF
    if not value:
        return 0, 32
    count = 32 - value.bit_length()
    return value << count, count
