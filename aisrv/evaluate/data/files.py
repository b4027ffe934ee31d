"""Files of examples: folders of class folders, and tables that name a file and its class."""

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from aisrv.evaluate.data.data_set import DataSet, listing_digest
from aisrv.evaluate.errors import DataError, ExtraError
from aisrv.values.extras import install_command
from aisrv.values.regular_file import read_regular
from host_tools.tensors.images import SUFFIXES as IMAGES

SOUNDS: Final = frozenset({".wav"})
SUFFIXES: Final = IMAGES | SOUNDS | {".npy"}
"""Endings of the names of files that are examples."""

COLUMNS: Final = {"path": "path", "image": "image", "label": "label"}
"""Columns of a table by what they are for; a table names a path, or holds the bytes of an image."""


def read_folder(folder: Path) -> DataSet:
    """List the files of a folder, whose class each is the folder directly in it; DataError.

    They are sorted by the bytes of their paths; hidden ones are counted.
    """
    hidden = 0
    found: list[tuple[bytes, Path]] = []
    for place, folders, files in os.walk(folder):
        hidden += sum(each.startswith(".") for each in (*files, *folders))
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in files:
            path = Path(place) / name
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES:
                found.append((os.fsencode(path.relative_to(folder)), path))
    found.sort()
    names = [os.fsdecode(relative) for relative, _ in found]
    alone = next((name for name in names if "/" not in name), None)
    if alone is not None:
        raise DataError(f"{folder}: {alone} is in no class folder")
    if not found:
        raise DataError(f"{folder}: no class folder has a picture or sound in it")
    labels = [name.partition("/")[0] for name in names]
    paths = [path for _, path in found]
    kind = "wav" if all(path.suffix.lower() in SOUNDS for path in paths) else "folder"
    return DataSet(
        str(folder),
        kind,
        labels,
        _digest(kind, names, labels, paths),
        files=paths,
        names=names,
        hidden=hidden,
    )


def _digest(kind: str, names: Sequence[str], labels: Sequence[str], paths: Sequence[Path]) -> str:
    def lines() -> Iterator[str]:
        for name, label, path in zip(names, labels, paths, strict=True):
            try:
                yield f"{name}\t{label}\t{path.stat().st_size}"
            except OSError as error:
                raise DataError(f"{path}: {error.strerror}") from None

    return listing_digest(kind, lines())


def read_csv(path: Path, columns: Mapping[str, str]) -> DataSet:
    """List the files that a table in CSV names, from its own folder; DataError.

    `columns` are the headings of the columns, by what they are for, where they differ from COLUMNS.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
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


def read_parquet(path: Path, columns: Mapping[str, str]) -> DataSet:
    """List the files that a table in Parquet names, or take the images in it; DataError, ExtraError.

    `columns` are as those of `read_csv`.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ExtraError(f"{path}: reading Parquet needs pyarrow: {install_command('evaluate')}") from None
    names = COLUMNS | dict(columns)
    try:
        # Without its threads, which at the end of a process may abort it.
        table = pq.ParquetFile(io.BytesIO(read_regular(path))).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
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


def _check_columns(path: Path, found: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in found:
            raise DataError(
                f"{path}: no column {name!r}, there are {', '.join(found) or 'none'}; "
                "name them as in --columns path=file,label=class"
            )


def _listed(path: Path, kind: str, names: Sequence[str], labels: Sequence[str]) -> DataSet:
    if not names:
        raise DataError(f"{path}: no examples")
    paths = [path.parent / name for name in names]
    return DataSet(str(path), kind, labels, _digest(kind, names, labels, paths), files=paths, names=names)
