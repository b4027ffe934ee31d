"""Files of examples: folders of class folders, and tables that name a file and its class."""

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from aisrv.evaluate.data.data_set import DataSet, listing_digest
from aisrv.evaluate.data.urls import Url, is_url, list_folder, read_url, size_of, source_of
from aisrv.evaluate.errors import DataError, ExtraError
from aisrv.values.extras import import_failure
from aisrv.values.regular_file import read_regular
from host_tools.tensors.images import SUFFIXES as IMAGES

SOUNDS: Final = frozenset({".wav"})
SUFFIXES: Final = IMAGES | SOUNDS | {".npy"}
"""Endings of the names of files that are examples."""

COLUMNS: Final = {"path": "path", "image": "image", "label": "label"}
"""Columns of a table by what they are for; a table names a path, or holds the bytes of an image."""


def read_folder(folder: Path | Url) -> DataSet:
    """List the files of a folder, whose class each is the folder directly in it; DataError, ExtraError.

    They are sorted by the bytes of their paths; hidden ones are counted.
    """
    found, hidden = _listed_url(folder) if isinstance(folder, Url) else _listed_folder(folder)
    found.sort()
    names = [os.fsdecode(relative) for relative, _ in found]
    alone = next((name for name in names if "/" not in name), None)
    if alone is not None:
        raise DataError(f"{folder}: {alone} is in no class folder")
    if not found:
        raise DataError(f"{folder}: no class folder has a picture or sound in it")
    labels = [name.partition("/")[0] for name in names]
    sources = [source for _, source in found]
    kind = "wav" if all(each.suffix.lower() in SOUNDS for each in sources) else "folder"
    return DataSet(
        str(folder),
        kind,
        labels,
        _digest(kind, names, labels, sources),
        files=sources,
        names=names,
        hidden=hidden,
    )


def _listed_url(folder: Url) -> tuple[list[tuple[bytes, Path | Url]], int]:
    """Return the examples in a folder that lies elsewhere, and how many files are hidden."""
    hidden = 0
    found: list[tuple[bytes, Path | Url]] = []
    for name, url in list_folder(folder):
        if any(part.startswith(".") for part in name.split("/")):
            hidden += 1
        elif url.suffix.lower() in SUFFIXES:
            found.append((os.fsencode(name), url))
    return found, hidden


def _listed_folder(folder: Path) -> tuple[list[tuple[bytes, Path | Url]], int]:
    """Return the examples in a folder, and how many files and folders are hidden."""
    hidden = 0
    found: list[tuple[bytes, Path | Url]] = []
    for place, folders, files in os.walk(folder):
        hidden += sum(each.startswith(".") for each in (*files, *folders))
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in files:
            path = Path(place) / name
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES:
                found.append((os.fsencode(path.relative_to(folder)), path))
    return found, hidden


def _digest(kind: str, names: Sequence[str], labels: Sequence[str], sources: Sequence[Path | Url]) -> str:
    def lines() -> Iterator[str]:
        for name, label, source in zip(names, labels, sources, strict=True):
            try:
                size = size_of(source) if isinstance(source, Url) else source.stat().st_size
            except OSError as error:
                raise DataError(f"{source}: {error.strerror}") from None
            yield f"{name}\t{label}\t{size}"

    return listing_digest(kind, lines())


def read_whole(path: Path | Url) -> bytes:
    """Return the bytes of a file of data; DataError, ExtraError."""
    try:
        return read_url(path) if isinstance(path, Url) else read_regular(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None


def read_csv(path: Path | Url, columns: Mapping[str, str]) -> DataSet:
    """List the files that a table in CSV names, from its own folder; DataError, ExtraError.

    `columns` are the headings of the columns, by what they are for, where they differ from COLUMNS.
    """
    try:
        text = read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}") from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    place, label = (columns.get(each, each) for each in ("path", "label"))
    _check_columns(path, rows.fieldnames or (), (place, label))
    names, labels = [], []
    try:
        for row in rows:
            if not row[place] or row[label] is None:
                raise DataError(f"{path}:{rows.line_num}: {place} and {label} must be given")
            names.append(row[place])
            labels.append(row[label])
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: {error}") from None
    return _listed(path, "csv", names, labels)


def read_parquet(path: Path | Url, columns: Mapping[str, str]) -> DataSet:
    """List the files that a table in Parquet names, or take the images in it; DataError, ExtraError.

    `columns` are as those of `read_csv`.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        needed = import_failure("reading Parquet needs pyarrow", error, "evaluate")
        raise ExtraError(f"{path}: {needed}") from None
    names = COLUMNS | dict(columns)
    try:
        # Without its threads, which at the end of a process may abort it.
        table = pq.ParquetFile(io.BytesIO(read_whole(path))).read(use_threads=False)
    except pa.ArrowException as error:
        raise DataError(f"{path}: {error}") from None
    source = names["image"] if names["image"] in table.column_names else names["path"]
    _check_columns(path, table.column_names, (source, names["label"]))
    labels = [str(each) for each in table[names["label"]].to_pylist()]
    values = table[source].to_pylist()
    if source == names["path"]:
        return _listed(path, "parquet", values, labels)
    files = [each["bytes"] if isinstance(each, dict) else each for each in values]
    if not all(isinstance(each, bytes) for each in files):
        raise DataError(f"{path}: the column {source} must hold the bytes of pictures")
    lines = (
        f"{hashlib.sha256(file).hexdigest()}\t{label}" for file, label in zip(files, labels, strict=True)
    )
    digest = listing_digest("parquet", lines)
    return DataSet(
        str(path), "parquet", labels, digest, files=files, names=[f"row {row}" for row in range(len(files))]
    )


def _check_columns(path: Path | Url, found: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in found:
            raise DataError(
                f"{path}: no column {name!r}, there are {', '.join(found) or 'none'}; "
                "name them as in --columns path=file,label=class"
            )


def _listed(path: Path | Url, kind: str, names: Sequence[str], labels: Sequence[str]) -> DataSet:
    if not names:
        raise DataError(f"{path}: no examples")
    sources = [_named_in(path, name) for name in names]
    return DataSet(str(path), kind, labels, _digest(kind, names, labels, sources), files=sources, names=names)


def _named_in(table: Path | Url, name: str) -> Path | Url:
    """Return the file that a table names: from the table's own folder, or an address; DataError.

    A table that lies elsewhere names no file of this machine.
    """
    if not is_url(name):
        return table.with_name(name) if isinstance(table, Url) else table.parent / name
    source = source_of(name)
    if isinstance(table, Url) and (isinstance(source, Path) or source.kind != table.kind):
        raise DataError(f"{table}: {name} is not reached as the table is")
    return source
