"""The flatbuffer below a model file: tables, fields and vectors, with every offset checked.

Source: https://flatbuffers.dev/internals. All offsets count from the field that holds them.
"""

import struct
from typing import TYPE_CHECKING, Final

from aisrv.model.errors import MAX_TABLES, ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

I8: Final = struct.Struct("<b")
U8: Final = struct.Struct("<B")
U16: Final = struct.Struct("<H")
I32: Final = struct.Struct("<i")
U32: Final = struct.Struct("<I")
I64: Final = struct.Struct("<q")
U64: Final = struct.Struct("<Q")
F32: Final = struct.Struct("<f")


ROOT: Final = "the model"
"""Name of the root table in messages."""


class File:
    """The bytes of a file, and how much more of them may be read."""

    __slots__ = ("data", "tables_left", "vector_bytes_left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tables_left = MAX_TABLES
        # Vectors may be shared, but a file that makes us read it over and over is no model.
        self.vector_bytes_left = 4 * len(data)

    def integer(self, kind: struct.Struct, position: int, where: str) -> int:
        """Read one number; `where` names it in messages."""
        self.check(position, kind.size, where)
        return int(kind.unpack_from(self.data, position)[0])

    def check(self, position: int, size: int, where: str) -> None:
        """Raise ModelFileError unless `size` bytes at `position` are inside the file."""
        if position < 0 or position + size > len(self.data):
            raise ModelFileError(
                f"{where} takes {size} bytes at {position}: outside the file, which has {len(self.data)}"
            )


class Table:
    """A table of the file: fields by their number in the schema. An absent field has its default."""

    __slots__ = ("file", "length", "position", "vtable", "vtable_length", "where")

    def __init__(self, file: File, reference: int, where: str) -> None:
        """Follow the offset at byte `reference`."""
        file.tables_left -= 1
        if file.tables_left < 0:
            raise ModelFileError(f"{where}: the file has more than {MAX_TABLES} tables")
        self.file = file
        self.where = where
        self.position = reference + file.integer(U32, reference, f"the offset of {where}")
        self.vtable = self.position - file.integer(I32, self.position, where)
        self.vtable_length = file.integer(U16, self.vtable, f"the field list of {where}")
        self.length = file.integer(U16, self.vtable + 2, f"the field list of {where}")
        file.check(self.vtable, self.vtable_length, f"the field list of {where}")
        file.check(self.position, self.length, where)

    def _at(self, slot: int) -> int | None:
        """Position of a field, None where it is absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_length:
            return None
        offset = int(U16.unpack_from(self.file.data, self.vtable + entry)[0])
        if offset >= self.length:
            raise ModelFileError(f"{self.where}: field {slot} lies {offset} bytes into {self.length}")
        return self.position + offset if offset else None

    def integer(self, slot: int, kind: struct.Struct, default: int = 0) -> int:
        """Read a number."""
        position = self._at(slot)
        return (
            default if position is None else self.file.integer(kind, position, f"{self.where}: field {slot}")
        )

    def real(self, slot: int, default: float = 0.0) -> float:
        """Read a float32."""
        position = self._at(slot)
        if position is None:
            return default
        self.file.check(position, 4, f"{self.where}: field {slot}")
        return float(F32.unpack_from(self.file.data, position)[0])

    def table(self, slot: int, what: str) -> "Table | None":
        """Follow an offset to another table; None where the field is absent."""
        position = self._at(slot)
        return None if position is None else Table(self.file, position, f"{self.where}: {what}")

    def vector(self, slot: int, size: int, what: str) -> tuple[int, int] | None:
        """Position of the first element and number of elements of `size` bytes; None where absent."""
        position = self._at(slot)
        if position is None:
            return None
        where = f"{self.where}: {what}"
        start = position + self.file.integer(U32, position, where)
        count = self.file.integer(U32, start, where)
        self.file.check(start + 4, count * size, where)
        return start + 4, count

    def read(self, slot: int, size: int, what: str) -> bytes:
        """Bytes of a vector of elements of `size` bytes; empty where absent."""
        vector = self.vector(slot, size, what)
        if vector is None:
            return b""
        start, count = vector
        self.file.vector_bytes_left -= count * size
        if self.file.vector_bytes_left < 0:
            raise ModelFileError(f"{self.where}: {what}: the file refers to the same bytes over and over")
        return self.file.data[start : start + count * size]

    def integers(self, slot: int, kind: struct.Struct, what: str) -> tuple[int, ...]:
        """Read a vector of numbers; empty where absent."""
        data = self.read(slot, kind.size, what)
        return struct.unpack(f"<{len(data) // kind.size}{kind.format[-1]}", data)

    def reals(self, slot: int, what: str) -> tuple[float, ...]:
        """Read a vector of float32; empty where absent."""
        data = self.read(slot, 4, what)
        return struct.unpack(f"<{len(data) // 4}f", data)

    def text(self, slot: int, what: str) -> str:
        """Read a string; empty where absent."""
        data = self.read(slot, 1, what)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"{self.where}: {what} is not UTF-8: {error.reason} at {error.start}"
            ) from None

    def tables(self, slot: int, what: str) -> "Iterator[Table]":
        """The tables of a vector of offsets, each named by `what` and its index."""
        start, count = self.vector(slot, 4, f"{what}s") or (0, 0)
        for index in range(count):
            yield Table(self.file, start + 4 * index, f"{what} {index}")
