"""Tables in Parquet that name files or hold pictures, read a few rows at a time.

A small file may say that it has many rows, or unpack to a great deal. So what it takes is known from its
footer and the headers of its pages before anything is unpacked, and rows are read in batches that are small
whatever the values are.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aisrv.addons.evaluate.data.allowance import FILE_BYTES, LARGEST_DATA, Allowance
from aisrv.addons.evaluate.data.content import mapped, opened_data
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.files import COLUMNS, check_columns, named_in
from aisrv.addons.evaluate.data.listing import Listing
from aisrv.addons.evaluate.data.parquet_costs import Cost, costs_of
from aisrv.addons.evaluate.data.parquet_layout import read_layout
from aisrv.addons.evaluate.data.urls import Url
from aisrv.addons.evaluate.errors import DataError, ExtraError
from aisrv.values.extras import import_failure
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import printable, readable_name

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

LARGEST_BATCH: Final = 16 << 20
"""Bytes of the rows that are read at once, or those of one row."""
MOST_ROWS: Final = 65536
"""Rows that are read at once."""

_IMAGE_BYTES: Final = 256
"""Of an example that is a picture in the table, beside the picture: its name and its label."""


def read_parquet(path: Path | Url, columns: Mapping[str, str], largest: int = LARGEST_DATA) -> DataSet:
    """List the files that a table in Parquet names, or take the images in it; DataError, ExtraError.

    `columns` are as those of `read_csv`; `largest` is what the data may take in memory, in bytes.
    """
    shown = printable(str(path))
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ExtraError(
            f"{shown}: {import_failure('reading Parquet needs pyarrow', error, 'evaluate')}"
        ) from None
    names = COLUMNS | dict(columns)
    with (
        opened_data(path) as file,
        parser_errors(f"{shown}: not a table in Parquet that can be read", DataError, (ExtraError,)),
    ):
        data = mapped(file)
        layout = read_layout(data)
        content = pa.py_buffer(data)
        table = pq.ParquetFile(pa.BufferReader(content))
        schema = table.schema_arrow
        source = names["image"] if names["image"] in schema.names else names["path"]
        check_columns(path, schema.names, (source, names["label"]))
        is_image = source == names["image"]
        leaves = [_source_leaf(schema, source, is_image=is_image), _label_leaf(schema, names["label"])]
        costs = costs_of(layout, data, leaves)
        # Values that repeat stay one; and nothing is read ahead.
        shared = [leaf for leaf, cost in zip(leaves, costs, strict=True) if not cost.is_delta]
        table = pq.ParquetFile(pa.BufferReader(content), read_dictionary=shared, pre_buffer=False)
        rows = _Rows(table, leaves, costs, layout.rows, shown)
        allowed = Allowance(str(path), largest)
        if is_image:
            return _images(path, rows, allowed)
        return _paths(path, rows, allowed)


def _paths(path: Path | Url, rows: "_Rows", allowed: Allowance) -> DataSet:
    listing = Listing(path, "parquet", allowed)
    rows.check(allowed, FILE_BYTES)
    for name, label in rows:
        if not isinstance(name, str) or not name:
            raise DataError(f"{printable(str(path))}: row {rows.number} names no file")
        listing.add(name, str(label), named_in(path, name))
    return listing.data()


def _images(path: Path | Url, rows: "_Rows", allowed: Allowance) -> DataSet:
    rows.check(allowed, _IMAGE_BYTES)
    files: list[bytes] = []
    labels: list[str] = []
    digests: dict[int, str] = {}  # by the file, of which one may be that of many rows
    digest = hashlib.sha256(b"parquet\n")
    for file, label in rows:
        if not isinstance(file, bytes):
            raise DataError(f"{printable(str(path))}: row {rows.number} has no bytes of a picture")
        allowed.take(_IMAGE_BYTES + len(str(label)))
        found = digests.get(id(file))
        if found is None:
            allowed.take(len(file))
            found = digests[id(file)] = hashlib.sha256(file).hexdigest()
        digest.update(f"{found}\t{label}\n".encode("utf-8", "surrogateescape"))
        files.append(file)
        labels.append(str(label))
    if not files:
        raise DataError(f"{printable(str(path))}: no examples")
    return DataSet(
        readable_name(str(path)),
        "parquet",
        labels,
        digest.hexdigest(),
        files=files,
        names=[f"row {row}" for row in range(len(files))],
    )


def _source_leaf(schema: "pa.Schema", name: str, *, is_image: bool) -> str:
    """Return the path of the column of files in the table; ValueError for one of another type."""
    import pyarrow as pa

    kind = schema.field(name).type
    if is_image and pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        name, kind = f"{name}.bytes", kind.field("bytes").type
    if is_image and not _is(kind, pa.types.is_binary, pa.types.is_large_binary):
        raise ValueError(f"the column {name} must hold the bytes of pictures")
    if not is_image and not _is(kind, pa.types.is_string, pa.types.is_large_string):
        raise ValueError(f"the column {name} must hold the names of files")
    return name


def _label_leaf(schema: "pa.Schema", name: str) -> str:
    import pyarrow as pa

    kinds = pa.types
    if not _is(
        schema.field(name).type,
        *(kinds.is_string, kinds.is_large_string, kinds.is_integer, kinds.is_floating, kinds.is_boolean),
    ):
        raise ValueError(f"the column {name} must hold texts or numbers")
    return name


def _is(kind: "pa.DataType", *checks: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(check(kind) for check in checks)


class _Rows:
    """The rows of two columns, in batches; iterate over it."""

    def __init__(
        self,
        table: "pq.ParquetFile",
        leaves: Sequence[str],
        costs: Sequence[Cost],
        count: int,
        shown: str,
    ) -> None:
        self.number = 0
        """The row that was yielded last, from 0."""
        self._table = table
        self._leaves = leaves
        self._shown = shown
        self._count = count
        self._batch = max(1, min(MOST_ROWS, int(LARGEST_BATCH / sum(each.row for each in costs))))

    def check(self, allowed: Allowance, each: int) -> None:
        """Raise DataError where the rows take more than is allowed, at `each` bytes of memory a row."""
        allowed.check(self._count * each)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield what is in the columns of each row; DataError where the file has fewer than it says."""
        seen = 0
        columns = [_Column(), _Column()]
        # Without its threads, which at the end of a process may abort it.
        for batch in self._table.iter_batches(self._batch, columns=list(self._leaves), use_threads=False):
            found = [
                column.values(batch.column(leaf.partition(".")[0]))
                for column, leaf in zip(columns, self._leaves, strict=True)
            ]
            for self.number, row in enumerate(zip(*found, strict=True), seen):
                yield row
            seen += batch.num_rows
        if seen != self._count:
            raise DataError(f"{self._shown}: {seen:,} rows, its footer says {self._count:,}")


class _Column:
    """Makes Python's values of a column's batches: one of those that repeat."""

    def __init__(self) -> None:
        self._dictionary: pa.Array | None = None
        self._entries: list[Any] = []

    def values(self, column: "pa.Array") -> list[Any]:
        """Return the values of a batch, of a struct those of its one field; None for null ones."""
        import pyarrow as pa

        if pa.types.is_struct(column.type):
            column = column.flatten()[0]
        if not pa.types.is_dictionary(column.type):
            return list(column.to_pylist())
        if self._dictionary is None or not _is_same(self._dictionary, column.dictionary):
            self._dictionary = column.dictionary
            self._entries = column.dictionary.to_pylist()
        entries = self._entries
        return [None if place is None else entries[place] for place in column.indices.to_pylist()]


def _is_same(one: "pa.Array", other: "pa.Array") -> bool:
    """Return whether two arrays are the same memory."""
    return len(one) == len(other) and [each and each.address for each in one.buffers()] == [
        each and each.address for each in other.buffers()
    ]
