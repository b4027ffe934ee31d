"""The flatbuffer below a model file: the tables of the `tflite` package, with every offset checked.

The package knows the schema: which fields a table has, where, and of what type. It leaves following offsets
to `flatbuffers.table.Table`, which trusts them. `_CheckedTable` takes its place in each object of the
package, so that nothing outside the file is read. Source: https://flatbuffers.dev/internals; all offsets
count from the field that holds them.
"""

# ruff: noqa: ANN401, N802 - the packages have no types, and methods that take the place of theirs have their names

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import tflite
from flatbuffers import number_types
from flatbuffers import table as flatbuffer_table

from aisrv.model.errors import MAX_TABLES, ModelFileError

U16: Final = struct.Struct("<H")
I32: Final = struct.Struct("<i")
U32: Final = struct.Struct("<I")
_VTABLE: Final = struct.Struct("<2H")
"""The start of a field list: its own length, and that of the table."""

ROOT: Final = "the model"
"""Name of the root table in messages."""


class File:
    """The bytes of a file, and how much more of them may be read."""

    __slots__ = ("data", "tables_left", "vector_bytes_left", "view")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.view = memoryview(data)
        self.tables_left = MAX_TABLES
        # Vectors may be shared, but a file that makes us read it over and over is no model.
        self.vector_bytes_left = 4 * len(data)

    @property
    def root(self) -> "Table":
        """The table at the start."""
        model = tflite.Model()
        model.Init(self.data, self.integer(U32, 0, f"the offset of {ROOT}"))
        return Table(self, model, ROOT)

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

    def count_copy(self, nbytes: int, where: str) -> None:
        """Count bytes that are about to be copied; ModelFileError for far more than the file has."""
        self.vector_bytes_left -= nbytes
        if self.vector_bytes_left < 0:
            raise ModelFileError(f"{where}: the file refers to the same bytes over and over")


class _CheckedTable(flatbuffer_table.Table):  # type: ignore[misc]  # the package has no types
    """What objects of the `tflite` package read their fields with: the same methods, inside the file only."""

    __slots__ = ("file", "length", "name", "size", "vector_start", "vtable", "vtable_length", "where")

    def __init__(self, file: File, position: int, where: str) -> None:
        file.tables_left -= 1
        if file.tables_left < 0:
            raise ModelFileError(f"{where}: the file has more than {MAX_TABLES} tables")
        data = file.data
        self.Bytes, self.Pos = data, position  # type: ignore[misc]  # slots of the class above
        self.file, self.size, self.where, self.name = file, len(file.data), where, ""
        # Texts are made for errors only: this runs for each table of the file.
        if position + I32.size > self.size:
            file.check(position, I32.size, where)
        (distance,) = I32.unpack_from(data, position)
        vtable = self.vtable = position - distance
        if vtable < 0 or vtable + _VTABLE.size > self.size:
            file.check(vtable, _VTABLE.size, f"the field list of {where}")
        self.vtable_length, self.length = _VTABLE.unpack_from(data, vtable)
        if vtable + self.vtable_length > self.size:
            file.check(vtable, self.vtable_length, f"the field list of {where}")
        if position + self.length > self.size:
            file.check(position, self.length, where)

    @property
    def field(self) -> str:
        """The field that is being read, for messages."""
        return f"{self.where}: {_spoken(self.name)}"

    def Offset(self, entry: int) -> int:
        if entry + 2 > self.vtable_length:
            return 0
        (offset,) = U16.unpack_from(self.Bytes, self.vtable + entry)
        if offset >= self.length:
            raise ModelFileError(f"{self.field} lies {offset} bytes into {self.length}")
        return int(offset)

    def Get(self, flags: Any, position: int) -> Any:
        if position + flags.bytewidth > self.size:
            self.file.check(position, flags.bytewidth, self.field)
        return flags.py_type(flags.packer_type.unpack_from(self.Bytes, position)[0])

    def Indirect(self, position: int) -> int:
        target = position + self._u32(position)
        if target + I32.size > self.size:  # where the table begins
            self.file.check(target, I32.size, self.field)
        return target

    def Vector(self, offset: int) -> int:
        position: int = self.Pos + offset
        if position + U32.size > self.size:
            self.file.check(position, U32.size, self.field)
        (distance,) = U32.unpack_from(self.Bytes, position)
        return position + int(distance) + U32.size

    def VectorLen(self, offset: int) -> int:
        self.vector_start = start = self.Vector(offset)
        count: int = self._u32(start - U32.size)
        return count

    def GetVectorAsNumpy(self, flags: Any, offset: int) -> memoryview:
        """Give the elements as a view of the file; nothing here needs them as an array."""
        nbytes = self.VectorLen(offset) * flags.bytewidth
        start = self.vector_start
        if start + nbytes > self.size:
            self.file.check(start, nbytes, self.field)
        return self.file.view[start : start + nbytes].cast(flags.packer_type.format[-1])

    def String(self, position: int) -> bytes:
        start = position + self._u32(position) + U32.size
        size = self._u32(start - U32.size)
        if start + size > self.size:
            self.file.check(start, size, self.field)
        self.file.count_copy(size, self.where)
        return self.file.data[start : start + size]

    def Union(self, table: Any, offset: int) -> None:
        table.Bytes, table.Pos = self.Bytes, self.Indirect(self.Pos + offset)

    def _u32(self, position: int) -> int:
        if position + U32.size > self.size:
            self.file.check(position, U32.size, self.field)
        return int(U32.unpack_from(self.Bytes, position)[0])


class Table:
    """A table of the file: fields by the names that the `tflite` package has for them.

    An absent field has the schema's default. Whatever lies outside the file is a ModelFileError.
    """

    __slots__ = ("_checked", "_fields", "file", "where")

    def __init__(self, file: File, fields: Any, where: str) -> None:
        """Check an object of the package; `where` names it in messages."""
        self.file, self.where, self._fields = file, where, fields
        self._checked = fields._tab = _CheckedTable(file, fields._tab.Pos, where)

    def number(self, name: str) -> int:
        """Read an integer or a flag."""
        self._checked.name = name
        return int(getattr(self._fields, name)())

    def integer_at(self, slot: int) -> int:
        """Read an int32 by its number in the schema."""
        return int(self._checked.GetSlot(4 + 2 * slot, 0, number_types.Int32Flags))

    def view(self, name: str) -> memoryview:
        """View the elements of a vector of numbers; empty where absent."""
        elements = self._read(f"{name}AsNumpy", name)
        return elements if isinstance(elements, memoryview) else memoryview(b"")

    def numbers(self, name: str) -> tuple[Any, ...]:
        """Read a vector of numbers; empty where absent."""
        elements = self.view(name)
        self.file.count_copy(elements.nbytes, self.where)
        return tuple(elements.tolist())

    def text(self, name: str) -> str:
        """Read a string; empty where absent."""
        return self._decode(self._read(name, name) or b"")

    def table(self, name: str) -> "Table | None":
        """Follow an offset to another table; None where the field is absent."""
        fields = self._read(name, name)
        return None if fields is None else Table(self.file, fields, f"{self.where}: {_spoken(name)}")

    def union(self, name: str, kind: str) -> "Table | None":
        """Follow an offset to a table of one of several kinds; None where the field is absent."""
        place = self._read(name, name)
        if place is None:
            return None
        fields = getattr(tflite, kind)()
        fields.Init(self.file.data, place.Pos)
        return Table(self.file, fields, f"{self.where}: {_spoken(name)}")

    def vector(self, name: str) -> tuple[int, int]:
        """Position of the first element of a vector of tables, and their number; zeros where absent."""
        count = self._read(f"{name}Length", name)
        if not count:
            return 0, 0
        self.file.check(self._checked.vector_start, count * U32.size, self._checked.field)
        return self._checked.vector_start, count

    def tables(self, name: str, where: str) -> Iterator["Table"]:
        """The tables of a vector, each named by `where` and its index."""
        _, count = self.vector(name)
        for index in range(count):
            yield Table(self.file, getattr(self._fields, name)(index), f"{where} {index}")

    def all_fields(self) -> dict[str, Any]:
        """Read all numbers, strings and vectors of numbers, by their names in the schema."""
        found: dict[str, Any] = {}
        for accessor, name, is_vector in _fields_of(self._fields.__class__):
            value = self.numbers(accessor) if is_vector else self._read(accessor, accessor)
            if isinstance(value, bytes):
                value = self._decode(value)
            if value is None:  # strings have no other default
                value = ""
            if isinstance(value, (int, float, str, tuple)):
                found[name] = value
        return found

    def _read(self, accessor: str, name: str) -> Any:
        self._checked.name = name
        return getattr(self._fields, accessor)()

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"{self._checked.field} is not UTF-8: {error.reason} at {error.start}"
            ) from None


_NO_FIELDS: Final = ("AsNumpy", "Length", "IsNone", "BufferHasIdentifier", "Init")


@cache
def _fields_of(table: type) -> tuple[tuple[str, str, bool], ...]:
    """Accessors of a class of the package, the schema's names of the fields, and which are vectors."""
    names = vars(table)
    return tuple(
        (name, _spoken(name).replace(" ", "_"), f"{name}AsNumpy" in names)
        for name in names
        if name[0].isupper()
        and not name.endswith(_NO_FIELDS)
        and not name.startswith("GetRootAs")
        and (f"{name}AsNumpy" in names or f"{name}Length" not in names)
    )


@cache
def _spoken(name: str) -> str:
    """A name of the package as words: "StrideW" is "stride w"."""
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name).lstrip()
