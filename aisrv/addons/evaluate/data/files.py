"""Files of examples: folders of class folders, and tables that name a file and its class."""

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from aisrv.addons.evaluate.data.allowance import FILE_BYTES, LARGEST_DATA, Allowance
from aisrv.addons.evaluate.data.content import opened_data
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.listing import Listing
from aisrv.addons.evaluate.data.urls import Url, is_url, list_folder, source_of
from aisrv.addons.evaluate.errors import DataError, ExtraError
from aisrv.values.parser_errors import parser_errors
from aisrv.values.printable import printable
from host_tools.tensors.images import SUFFIXES as IMAGES

SOUNDS: Final = frozenset({".wav"})
SUFFIXES: Final = IMAGES | SOUNDS | {".npy"}
"""Endings of the names of files that are examples."""

COLUMNS: Final = {"path": "path", "image": "image", "label": "label"}
"""Columns of a table by what they are for; a table names a path, or holds the bytes of an image."""

LONGEST_ROW: Final = 1 << 20
"""Characters of a row of a table."""
_LONGEST_COLUMNS: Final = 300


def read_folder(folder: Path | Url, largest: int = LARGEST_DATA) -> DataSet:
    """List the files of a folder, whose class each is the folder directly in it; DataError, ExtraError.

    They are sorted by the bytes of their paths; hidden ones are counted. `largest` is what the list may take
    in memory, in bytes.
    """
    shown = printable(str(folder))
    allowed = Allowance(str(folder), largest)
    found, hidden = (
        _listed_url(folder, allowed) if isinstance(folder, Url) else _listed_folder(folder, allowed)
    )
    found.sort()
    names = [os.fsdecode(relative) for relative, _ in found]
    alone = next((name for name in names if "/" not in name), None)
    if alone is not None:
        raise DataError(f"{shown}: {printable(alone)} is in no class folder")
    if not found:
        raise DataError(f"{shown}: no class folder has a picture or sound in it")
    kind = "wav" if all(each.suffix.lower() in SOUNDS for _, each in found) else "folder"
    listing = Listing(folder, kind, Allowance(str(folder), largest))
    for name, (_, source) in zip(names, found, strict=True):
        listing.add(name, name.partition("/")[0], source)
    return listing.data(hidden)


def _listed_url(folder: Url, allowed: Allowance) -> tuple[list[tuple[bytes, Path | Url]], int]:
    """Return the examples in a folder that lies elsewhere, and how many files are hidden."""
    hidden = 0
    found: list[tuple[bytes, Path | Url]] = []
    for name, url in list_folder(folder):
        if any(part.startswith(".") for part in name.split("/")):
            hidden += 1
        elif url.suffix.lower() in SUFFIXES:
            allowed.take(FILE_BYTES + 3 * len(name))
            found.append((os.fsencode(name), url))
    return found, hidden


def _listed_folder(folder: Path, allowed: Allowance) -> tuple[list[tuple[bytes, Path | Url]], int]:
    """Return the examples in a folder, and how many files and folders are hidden."""
    hidden = 0
    found: list[tuple[bytes, Path | Url]] = []
    for place, folders, files in os.walk(folder):
        hidden += sum(each.startswith(".") for each in (*files, *folders))
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in files:
            path = Path(place) / name
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES:
                allowed.take(FILE_BYTES + 3 * len(name))
                found.append((os.fsencode(path.relative_to(folder)), path))
    return found, hidden


def read_csv(path: Path | Url, columns: Mapping[str, str], largest: int = LARGEST_DATA) -> DataSet:
    """List the files that a table in CSV names, from its own folder; DataError, ExtraError.

    `columns` are the headings of the columns, by what they are for, where they differ from COLUMNS; `largest`
    is what the list may take in memory, in bytes.
    """
    listing = Listing(path, "csv", Allowance(str(path), largest))
    place, label = (columns.get(each, each) for each in ("path", "label"))
    shown = printable(str(path))
    with opened_data(path) as file, parser_errors(f"{shown}: not a table in CSV", DataError, (ExtraError,)):
        lines = _Lines(file, shown)
        rows = csv.reader(lines)
        header = next(rows, [])
        check_columns(path, header, (place, label))
        places = header.index(place), header.index(label)
        for row in rows:
            lines.end_row()
            if not row:
                continue
            if len(row) <= max(places) or not row[places[0]]:
                raise DataError(f"{shown}:{rows.line_num}: {place} and {label} must be given")
            name = row[places[0]]
            listing.add(name, row[places[1]], named_in(path, name))
    return listing.data()


class _Lines:
    """The lines of a table in UTF-8, within a bound of the bytes of a row."""

    def __init__(self, file: BinaryIO, shown: str) -> None:
        self._file = io.TextIOWrapper(file, "utf-8-sig", newline="")
        self._shown = shown
        self._row = 0
        self._lines = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return a line; DataError."""
        try:
            line = self._file.readline(LONGEST_ROW)
        except UnicodeDecodeError:
            raise DataError(f"{self._shown}: not UTF-8 after line {self._lines}") from None
        if not line:
            raise StopIteration
        self._lines += 1
        self._row += len(line)
        if self._row >= LONGEST_ROW:
            raise DataError(f"{self._shown}: a row of more than {LONGEST_ROW:,} characters")
        return line

    def end_row(self) -> None:
        """Count the characters of the next row."""
        self._row = 0


def check_columns(path: Path | Url, found: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise DataError unless a table has all columns; `found` are their names."""
    for name in wanted:
        if name not in found:
            raise DataError(
                f"{printable(str(path))}: no column {name!r}, there are "
                f"{printable(', '.join(found), _LONGEST_COLUMNS) or 'none'}; "
                "name them as in --columns path=file,label=class"
            )


def named_in(table: Path | Url, name: str) -> Path | Url:
    """Return the file that a table names: from the table's own folder, or an address; DataError.

    A table that lies elsewhere names no file of this machine.
    """
    if not is_url(name):
        return table.with_name(name) if isinstance(table, Url) else table.parent / name
    source = source_of(name)
    if isinstance(table, Url) and (isinstance(source, Path) or source.kind != table.kind):
        raise DataError(f"{table}: {printable(name)} is not reached as the table is")
    return source
