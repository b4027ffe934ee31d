"""The layout of a Parquet file by its footer and the headers of its pages: what each takes once unpacked.

It is read here, before pyarrow sees the file: the sizes in a footer are what its writer says, and what a
reader takes memory for stands in the headers, which pyarrow does not tell. Asked for the columns of a damaged
footer it ends the process. Source: Apache Parquet, "parquet.thrift" (FileMetaData, PageHeader); Thrift,
"Thrift compact protocol encoding".
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

DICTIONARY: Final = 2
"""Kind of a page that holds the values to which others refer."""
PLAIN: Final = 0
DELTAS: Final = (6, 7)
"""Encodings of texts by their lengths, and by what each has of the one before."""
BY_DICTIONARY: Final = (2, 8)
"""Encodings of pages that refer to a dictionary."""

LARGEST_FOOTER: Final = 1 << 20
"""Bytes of what a file says of its columns and groups of rows; each takes several hundred bytes in memory."""
LONGEST_HEADER: Final = 1 << 16
"""Bytes of a header; statistics in it may be long."""
_END: Final = b"PAR1"
_DEEPEST: Final = 12
_MOST_BITS: Final = 70
_LONG_LIST: Final = 15

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class Column(NamedTuple):
    """A column of a group of rows."""

    path: str
    """Its names from the outermost in, with dots between."""
    start: int
    """Byte at which its first page begins."""
    end: int
    values: int


class Layout(NamedTuple):
    """What a footer says."""

    rows: int
    groups: tuple[tuple[Column, ...], ...]
    """The columns of each group of rows."""


class Page(NamedTuple):
    """A page, by its header."""

    kind: int
    encoding: int
    values: int
    """Values of it, null ones too."""
    unpacked: int
    """Bytes of its content."""
    packed: int
    """Bytes of it in the file, behind the header."""


def read_layout(data: memoryview) -> Layout:
    """Read the footer of a file; ValueError, LookupError or TypeError for a damaged or too large one."""
    if len(data) < 12 or bytes(data[-4:]) != _END:
        raise ValueError("it has no footer")
    size = int.from_bytes(data[-8:-4], "little")
    if size > min(LARGEST_FOOTER, len(data) - 12):
        raise ValueError(f"its footer has {size:,} bytes, at most {LARGEST_FOOTER:,} are read")
    footer = _Values(data[len(data) - 8 - size : len(data) - 8]).struct()
    groups = tuple(tuple(_column(each[3], len(data)) for each in group[1]) for group in footer[4])
    return Layout(int(footer[3]), groups)


def _column(said: Mapping[int, Any], size: int) -> Column:
    """Return a column of its metadata; ValueError, LookupError, TypeError. The file has `size` bytes."""
    start, values, packed = int(said[9]), int(said[5]), int(said[7])
    dictionary = int(said.get(11, 0))
    if 0 < dictionary < start:
        start = dictionary
    if min(start, values, packed) < 0 or start + packed > size:
        raise ValueError("a column lies beyond the end of the file")
    path = b".".join(map(bytes, said[3])).decode()
    return Column(path, start, start + packed, values)


def pages(data: memoryview, column: Column) -> Iterator[Page]:
    """Yield the pages of a column; ValueError, LookupError or TypeError where one is damaged."""
    seen, start, end = 0, column.start, column.end
    while seen < column.values and start < end:
        header = _Values(data[start : min(end, start + LONGEST_HEADER)])
        fields = header.struct()
        kind, unpacked, packed = (int(fields[number]) for number in (1, 2, 3))
        # Of data pages of version 1 and 2, and of dictionaries; version 2 has rows first, then the encoding.
        details: dict[int, Any] = next((fields[number] for number in (5, 8, 7) if number in fields), {})
        count = int(details.get(1, 0))
        if min(unpacked, packed, count) < 0:
            raise ValueError(f"the page at byte {start} has a negative size")
        start += header.at + packed
        if start > end:
            raise ValueError("a page is longer than its column")
        if kind != DICTIONARY:
            seen += count
        yield Page(kind, int(details.get(4 if 8 in fields else 2, PLAIN)), count, unpacked, packed)


class _Values:
    """Reads values in Thrift's compact encoding, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by number."""
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, _MOST_BITS, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number of too many bytes")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:  # noqa: ANN401 - as many types as there are
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _BINARY:
            size = self._varint()
            self.at += size
            return self._data[self.at - size : self.at]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < _LONG_LIST else self._varint()
            if count > len(self._data):
                raise ValueError(f"a list of {count} values")
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list
            return self._byte()
        if kind == _DOUBLE:
            self.at += 8
            return None
        raise ValueError(f"a field of type {kind}")
