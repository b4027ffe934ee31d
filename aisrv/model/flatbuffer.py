"""The flatbuffer below a model file: tables of the schema, with every offset checked.

The fields of tables are in `schema.py` and `metadata_schema.py`. Nothing outside the file is read. Source:
https:

flatbuffers.dev/internals; all offsets count from the field that holds them.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from aisrv.model.errors import MAX_TABLES, ModelFileError
from aisrv.model.metadata_schema import METADATA_TABLES
from aisrv.model.schema import TABLES
from aisrv.values.printable import printable

U16: Final = struct.Struct("<H")
I32: Final = struct.Struct("<i")
U32: Final = struct.Struct("<I")
_VTABLE: Final = struct.Struct("<2H")
"""Start of a field list: its own length, and that of the table."""
_NUMBERS: Final = {kind: struct.Struct(f"<{kind}") for kind in "?bBhHiIqQfd"}
_FIELD_LISTS: Final = [struct.Struct(f"<{words}H") for words in range(64)]
"""Field lists by their number of words; no table that is read has as many fields."""

_TABLES: Final = TABLES | METADATA_TABLES

ROOT: Final = "the model"


class File:
    """The bytes of a file, and how much more of them may be read."""

    __slots__ = ("data", "field_lists", "size", "tables_left", "vector_bytes_left", "view")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self.view = memoryview(data)
        self.tables_left = MAX_TABLES
        # Vectors may be shared, but a file that makes us read it over and over is not a model.
        self.vector_bytes_left = 4 * len(data)
        self.field_lists: dict[int, tuple[int, ...]] = {}  # by position; tables share them

    @property
    def root(self) -> "Table":
        """Return the table at the start."""
        return self.root_of("Model", ROOT)

    def root_of(self, kind: str, where: str) -> "Table":
        """Return the table at the start."""
        return Table(self, kind, self.integer(U32, 0, f"the offset of {where}"), where)

    def integer(self, kind: struct.Struct, position: int, where: str) -> int:
        self.check(position, kind.size, where)
        return int(kind.unpack_from(self.data, position)[0])

    def check(self, position: int, size: int, where: str) -> None:
        """Raise ModelFileError unless `size` bytes at `position` are inside the file."""
        if position < 0 or position + size > self.size:
            raise ModelFileError(
                f"{where} takes {size} bytes at {position}: outside the file, which has {self.size}"
            )

    def count_copy(self, nbytes: int, where: str) -> None:
        """Count bytes that are about to be copied; ModelFileError for far more than the file has."""
        self.vector_bytes_left -= nbytes
        if self.vector_bytes_left < 0:
            raise ModelFileError(f"{where}: the file refers to the same bytes over and over")

    def field_list(self, position: int, where: str) -> tuple[int, ...]:
        """Return the words of a field list: its length, that of the table, and the offset of each field."""
        self.check(position, _VTABLE.size, f"the field list of {where}")
        length, table = _VTABLE.unpack_from(self.data, position)
        self.check(position, length, f"the field list of {where}")
        words: tuple[int, ...] = (length, table)
        if length > _VTABLE.size:
            words = _FIELD_LISTS[min(length // 2, len(_FIELD_LISTS) - 1)].unpack_from(self.data, position)
        self.field_lists[position] = words
        return words


class Table:
    """A table of the file: fields by their names in the schema; absent ones have the schema's default.

    Offsets that lead outside the file raise ModelFileError.
    """

    __slots__ = ("_field_list", "_fields", "file", "position", "where")

    def __init__(self, file: File, kind: str, position: int, where: str) -> None:
        """Check the table at a position; `kind` is the schema's name of it, `where` is for messages."""
        file.tables_left -= 1
        if file.tables_left < 0:
            raise ModelFileError(f"{where}: the file has more than {MAX_TABLES} tables")
        self.file, self.position, self.where, self._fields = file, position, where, _TABLES[kind]
        # Texts are made for errors only: this runs for each table of the file.
        if position + 4 > file.size:
            file.check(position, 4, where)
        place = position - I32.unpack_from(file.data, position)[0]
        self._field_list = file.field_lists.get(place) or file.field_list(place, where)
        if position + self._field_list[1] > file.size:
            file.check(position, self._field_list[1], where)

    def number(self, name: str) -> int | float:
        slot, kind, default = self._fields[name]
        words = self._field_list
        if slot >= len(words) or not words[slot]:
            return default  # type: ignore[return-value]  # numbers have one
        reader = _NUMBERS[kind]
        position = self._position(words[slot], name)
        if position + reader.size > self.file.size:
            self.file.check(position, reader.size, self._named(name))
        return reader.unpack_from(self.file.data, position)[0]  # type: ignore[no-any-return]

    def field_position(self, name: str) -> int:
        """Return the position in the file of a field that is not absent."""
        return self._position(self._field_list[self._fields[name][0]], name)

    def integer(self, name: str) -> int:
        return self.number(name)  # type: ignore[return-value]  # as the schema says

    def view(self, name: str) -> memoryview:
        """View the elements of a vector of numbers; empty if absent."""
        kind: Any = self._fields[name][1][1:]
        start, nbytes = self._elements(name, _NUMBERS[kind].size)
        return self.file.view[start : start + nbytes].cast(kind)

    def numbers(self, name: str) -> tuple[Any, ...]:
        """Read a vector of numbers; empty if absent."""
        kind = self._fields[name][1][1:]
        size = _NUMBERS[kind].size
        start, nbytes = self._elements(name, size)
        if not nbytes:
            return ()
        self.file.count_copy(nbytes, self.where)
        return struct.unpack_from(f"<{nbytes // size}{kind}", self.file.data, start)

    def text(self, name: str) -> str:
        """Read a string, as it may be shown; empty if absent."""
        start, size = self._elements(name, 1)
        self.file.count_copy(size, self.where)
        try:
            return printable(str(self.file.view[start : start + size], "utf-8"))
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"{self._named(name)} is not UTF-8: {error.reason} at {error.start}"
            ) from None

    def table(self, name: str, kind: str = "") -> "Table | None":
        """Follow an offset to another table, for a union one of a kind; None if the field is absent."""
        slot, declared, _ = self._fields[name]
        words = self._field_list
        if slot >= len(words) or not words[slot]:
            return None
        target = self._follow(self._position(words[slot], name), name)
        return Table(self.file, kind or declared, target, self._named(name))

    def vector(self, name: str) -> tuple[int, int]:
        """Return position of the first element of a vector of tables, and their number; zeros if absent."""
        start, nbytes = self._elements(name, U32.size)
        return start, nbytes // U32.size

    def tables(self, name: str, where: str) -> Iterator["Table"]:
        """Yield the tables of a vector, each named by `where` and its index."""
        kind = self._fields[name][1][1:]
        start, count = self.vector(name)
        file = self.file
        if count > file.tables_left:
            raise ModelFileError(f"{where} {file.tables_left}: the file has more than {MAX_TABLES} tables")
        targets = struct.unpack_from(f"<{count}I", file.data, start)
        for index, target in enumerate(targets):
            position = start + 4 * index + target
            if position + 4 > file.size:
                file.check(position, 4, self._named(name))
            yield Table(file, kind, position, f"{where} {index}")

    def all_fields(self) -> dict[str, int | float | str | tuple[int, ...]]:
        found: dict[str, int | float | str | tuple[int, ...]] = {}
        for name, (_, kind, _) in self._fields.items():
            if kind in _NUMBERS:
                found[name] = self.number(name)
            elif kind == "s":
                found[name] = self.text(name)
            elif kind[0] == "[" and kind[1:] in _NUMBERS:
                found[name] = self.numbers(name)
        return found

    def _position(self, offset: int, name: str) -> int:
        if offset >= self._field_list[1]:
            raise ModelFileError(f"{self._named(name)} lies {offset} bytes into {self._field_list[1]}")
        return self.position + offset

    def _follow(self, position: int, name: str) -> int:
        """Return the target of an offset, 4 bytes inside the file."""
        data, size = self.file.data, self.file.size
        if position + 4 > size:
            self.file.check(position, 4, self._named(name))
        target: int = position + U32.unpack_from(data, position)[0]
        if target + 4 > size:
            self.file.check(target, 4, self._named(name))
        return target

    def _elements(self, name: str, size: int) -> tuple[int, int]:
        """Return position and bytes of a vector's or a string's elements; zeros if absent."""
        slot = self._fields[name][0]
        words = self._field_list
        if slot >= len(words) or not words[slot]:
            return 0, 0
        place = self._follow(self._position(words[slot], name), name)
        start, nbytes = place + 4, size * U32.unpack_from(self.file.data, place)[0]
        if start + nbytes > self.file.size:
            self.file.check(start, nbytes, self._named(name))
        return start, nbytes

    def _named(self, name: str) -> str:
        return f"{self.where}: {name.replace('_', ' ')}"
