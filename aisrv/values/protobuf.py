"""Protocol Buffers on the wire: fields written one by one, and read without a schema.

Source: protobuf.dev, "Encoding". A message is the bytes of its fields in any order; a field is a number and a
value: a varint, 64 bits, or bytes of a given length. Groups, which no schema has used for years, are refused.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

LARGEST_VARINT: Final = (1 << 64) - 1
LARGEST_FIELD: Final = (1 << 29) - 1
_LONGEST: Final = 10
"""Bytes of the longest varint."""

Value = int | bytes
"""The number of a varint or of fixed bits, unsigned; the bytes of anything else."""


class ProtobufError(ValueError):
    """Bytes that are no message."""


class WireType(IntEnum):
    """How a value is written."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


_SMALL: Final = tuple(bytes((value,)) for value in range(128))


def varint(value: int) -> bytes:
    """Write a number, 0 to 2**64 - 1, in groups of seven bits, the lowest first."""
    if 0 <= value < 128:
        return _SMALL[value]
    if not 0 <= value <= LARGEST_VARINT:
        raise ProtobufError(f"a varint of {value}: it is not 0 to 2**64 - 1")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire_type: WireType) -> bytes:
    """Write what begins a field."""
    if not 1 <= field <= LARGEST_FIELD:
        raise ProtobufError(f"field {field}: numbers are 1 to 2**29 - 1")
    return varint(field << 3 | wire_type)


def uint(field: int, value: int) -> bytes:
    """Write a field of type uint32, uint64, bool or of an enumeration."""
    return tag(field, WireType.VARINT) + varint(value)


def sint(field: int, value: int) -> bytes:
    """Write a field of type int32 or int64, -2**63 to 2**63 - 1: a negative one as its two's complement."""
    return uint(field, signed_to_unsigned(value))


def fixed64(field: int, value: int) -> bytes:
    """Write a field of type fixed64."""
    if not 0 <= value <= LARGEST_VARINT:
        raise ProtobufError(f"64 bits of {value}: it is not 0 to 2**64 - 1")
    return tag(field, WireType.FIXED64) + value.to_bytes(8, "little")


def data(field: int, value: bytes) -> bytes:
    """Write a field of type bytes, or of a message that is written already."""
    return tag(field, WireType.BYTES) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """Write a field of type string; what UTF-8 has no code for, such as half a surrogate, is a '?'."""
    return data(field, value.encode(errors="replace"))


def signed_to_unsigned(value: int) -> int:
    """Return the 64 bits of a signed number."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ProtobufError(f"64 signed bits of {value}: it is not -2**63 to 2**63 - 1")
    return value & LARGEST_VARINT


def unsigned_to_signed(value: int) -> int:
    """Return the number of which these are the 64 bits: what a field of type int64 was."""
    return value - (1 << 64) if value >> 63 else value


def read_varint(message: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Read a varint; return it and the offset behind it. Raises ProtobufError where it is cut or too long."""
    value = shift = 0
    for place in range(offset, min(offset + _LONGEST, len(message))):
        byte = message[place]
        value |= (byte & 127) << shift
        if byte < 128:
            if value > LARGEST_VARINT:
                break
            return value, place + 1
        shift += 7
    raise ProtobufError(f"offset {offset}: a varint that does not end, or of more than 64 bits")


def read_fields(message: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Read the fields of a message in their order: numbers and values.

    Raises ProtobufError, with the offset, where the bytes are no message, such as one that was cut.
    """
    offset, end = 0, len(message)
    while offset < end:
        begin = offset
        key, offset = read_varint(message, offset)
        field, kind = key >> 3, key & 7
        value: Value
        if kind == WireType.VARINT:
            value, offset = read_varint(message, offset)
        elif kind == WireType.BYTES:
            size, offset = read_varint(message, offset)
            value = bytes(message[offset : offset + size])
            if len(value) != size:
                raise ProtobufError(f"offset {begin}: field {field} has {size} bytes, {len(value)} are there")
            offset += size
        elif kind in (WireType.FIXED64, WireType.FIXED32):
            size = 8 if kind == WireType.FIXED64 else 4
            if offset + size > end:
                raise ProtobufError(
                    f"offset {begin}: field {field} has {size} bytes, {end - offset} are there"
                )
            value = int.from_bytes(message[offset : offset + size], "little")
            offset += size
        else:
            raise ProtobufError(f"offset {begin}: wire type {kind} of field {field} is not known")
        if not 1 <= field <= LARGEST_FIELD:
            raise ProtobufError(f"offset {begin}: field {field}: numbers are 1 to 2**29 - 1")
        yield field, value
