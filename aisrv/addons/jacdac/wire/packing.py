"""How the values of registers, commands and reports are packed: Jacdac's own format strings.

    u8 u16 u32 u64 i8 i16 i32 i64 f32 f64     numbers
    s                                          text to the end
    z                                          text to a zero byte
    b, b[8]                                    bytes to the end; so many bytes
    r: u16                                     what follows, over and over

Little-endian, without padding. Source: Jacdac's specification of data types and `jacdac-spec` of jacdac-ts.
"""

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Scalar: TypeAlias = int | float | str | bytes
Value: TypeAlias = "Scalar | Sequence[Value]"
"""One value where the format has one field; a sequence for several or for a repeated part."""

_NUMBERS: Final = {
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "f32": "f", "f64": "d",
}  # fmt: skip
_TEXT: Final = frozenset(("s", "z"))
_BYTES: Final = "b"


class PackingError(ValueError):
    """Bytes that a format does not fit, or values that do not fit it."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    number: struct.Struct | None
    size: int
    """Bytes; 0 for what goes to the end or to a zero byte."""

    @classmethod
    def of(cls, name: str) -> "_Field":
        if name in _NUMBERS:
            number = struct.Struct("<" + _NUMBERS[name])
            return cls(name, number, number.size)
        if name in _TEXT or name == _BYTES:
            return cls(name, None, 0)
        if name.startswith("b[") and name.endswith("]"):
            return cls(_BYTES, None, int(name[2:-1]))
        raise PackingError(f"no format {name!r}")

    def pack(self, value: Value) -> bytes:
        if self.number is not None:
            if not isinstance(value, int | float):
                raise PackingError(f"{value!r} is not a number")
            return self.number.pack(value)
        if self.name in _TEXT:
            if not isinstance(value, str):
                raise PackingError(f"{value!r} is not text")
            return value.encode() + (b"\0" if self.name == "z" else b"")
        if not isinstance(value, bytes):
            raise PackingError(f"{value!r} is not bytes")
        if self.size and len(value) != self.size:
            raise PackingError(f"{len(value)} bytes, there must be {self.size}")
        return value

    def unpack(self, data: bytes, start: int) -> tuple[Scalar, int]:
        if self.size:
            end = start + self.size
            if end > len(data):
                raise PackingError(f"{len(data)} bytes end in the middle of {self.name} at {start}")
            if self.number is None:
                return data[start:end], end
            (value,) = self.number.unpack_from(data, start)
            return value, end
        rest = data[start:]
        if self.name == "z":
            text, _, _ = rest.partition(b"\0")
            return text.decode(errors="replace"), min(start + len(text) + 1, len(data))
        return (rest.decode(errors="replace") if self.name == "s" else rest), len(data)


@dataclass(frozen=True, slots=True)
class Packing:
    """A format such as `u16` or `u16 r: b[8] u32`; PackingError for one that makes no sense."""

    format: str
    _fixed: tuple[_Field, ...] = field(init=False, repr=False, compare=False)
    _repeated: tuple[_Field, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fixed, colon, repeated = self.format.partition("r:")
        object.__setattr__(self, "_fixed", tuple(map(_Field.of, fixed.split())))
        object.__setattr__(self, "_repeated", tuple(map(_Field.of, repeated.split())))
        if colon and not self._repeated:
            raise PackingError(f"nothing is repeated in {self.format!r}")

    @property
    def integer_bytes(self) -> int | None:
        """Bytes of an integer, where the format is one; None for all others."""
        one = self._fixed[0] if len(self._fixed) == 1 and not self._repeated else None
        return one.size if one is not None and one.number is not None and one.name[0] in "ui" else None

    @property
    def is_signed(self) -> bool:
        """Return whether the first field is a signed integer."""
        return bool(self._fixed) and self._fixed[0].name.startswith("i")

    def pack(self, value: Value) -> bytes:
        """Return the bytes of a value; PackingError for one that does not fit."""
        try:
            return b"".join(self._parts(value))
        except struct.error as error:
            raise PackingError(f"{value!r} does not fit {self.format!r}: {error}") from None

    def unpack(self, data: bytes) -> Value:
        """Return the value of bytes, all of which must be used; PackingError otherwise."""
        values: list[Value] = []
        at = 0
        for one in self._fixed:
            value, at = one.unpack(data, at)
            values.append(value)
        rows: list[Value] = []
        while self._repeated and at < len(data):
            row: list[Value] = []
            for one in self._repeated:
                value, at = one.unpack(data, at)
                row.append(value)
            rows.append(row[0] if len(row) == 1 else tuple(row))
        if at != len(data):
            raise PackingError(f"{len(data)} bytes for {self.format!r}, {at} are used")
        if self._repeated:
            return (*values, tuple(rows)) if values else tuple(rows)
        return values[0] if len(values) == 1 else tuple(values)

    def unpack_setting(self, data: bytes) -> "Value | None":
        """Return the value that a set means: short integers are extended, long ones cut, empty ones None."""
        size = self.integer_bytes
        if size is None:
            return self.unpack(data)
        if not data:
            return None
        return int.from_bytes(data[:size], "little", signed=self.is_signed)

    def _parts(self, value: Value) -> list[bytes]:
        if len(self._fixed) == 1 and not self._repeated:
            return [self._fixed[0].pack(value)]
        if isinstance(value, int | float | str | bytes):
            raise PackingError(f"{value!r} is one value, {self.format!r} takes several")
        values: Sequence[Value] = value
        rows: Sequence[Value] = ()
        if self._repeated and not self._fixed:
            values, rows = (), values
        elif self._repeated:
            *values, last = values
            if isinstance(last, int | float | str | bytes):
                raise PackingError(f"{last!r} is one value where several are repeated")
            rows = last
        parts = [one.pack(each) for one, each in zip(self._fixed, values, strict=True)]
        for row in rows:
            if len(self._repeated) == 1:
                parts.append(self._repeated[0].pack(row))
            elif isinstance(row, int | float | str | bytes):
                raise PackingError(
                    f"{row!r} is one value, a row of {self.format!r} has {len(self._repeated)}"
                )
            else:
                parts += [one.pack(each) for one, each in zip(self._repeated, row, strict=True)]
        return parts
