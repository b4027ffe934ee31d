"""The data set that a user names: a folder, a file by its form, or the digits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aisrv.addons.evaluate.data.allowance import LARGEST_DATA
from aisrv.addons.evaluate.data.arrays import GZIP, digits_data, is_idx, read_idx, read_npz
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.files import read_csv, read_folder
from aisrv.addons.evaluate.data.parquet import read_parquet
from aisrv.addons.evaluate.data.urls import Url, beginning_of, is_folder, source_of
from aisrv.addons.evaluate.errors import DataError
from aisrv.model.labels import LARGEST_LABELS, labels_in
from aisrv.values.parser_errors import reason_of
from aisrv.values.printable import printable
from aisrv.values.regular_file import ANY_SIZE, opened_regular, read_regular

DIGITS: Final = ("digits", "digits:all")
"""Data that aisrv brings, by name."""

_HEAD_BYTES: Final = 16


def open_data(
    source: str,
    labels: Path | None = None,
    columns: Mapping[str, str] | None = None,
    largest: int = LARGEST_DATA,
) -> tuple[DataSet, tuple[str, ...]]:
    """Return a data set by its name, path or address, and the names of classes that are given.

    Raises DataError, ExtraError.

    `labels` is a text file with the name of a class in each line, or for IDX data the file of their labels;
    `columns` name those of a table; `largest` is what the data may take in memory, in bytes.
    """
    if source in DIGITS:
        return digits_data(source), _names(labels)
    path = source_of(source)
    if is_folder(path) if isinstance(path, Url) else path.is_dir():
        return read_folder(path, largest), _names(labels)
    match path.suffix.lower():
        case ".csv":
            return read_csv(path, columns or {}, largest), _names(labels)
        case ".parquet":
            return read_parquet(path, columns or {}, largest), _names(labels)
        case ".npz":
            return read_npz(path, largest), _names(labels)
    head = _head(path)
    if is_idx(head) or head[:2] == GZIP:
        if labels is not None and not _is_binary(labels):
            return read_idx(path, None, largest), _names(labels)
        return read_idx(path, labels, largest), ()
    raise DataError(
        f"{printable(str(path))}: not a data set: a folder of class folders, .csv, .parquet, .npz or IDX, "
        f"or {DIGITS[0]}"
        f"{'; the address of a folder on a web server ends in /' if isinstance(path, Url) else ''}"
    )


def _head(path: Path | Url) -> bytes:
    if isinstance(path, Url):
        return beginning_of(path, _HEAD_BYTES)
    try:
        with opened_regular(path, ANY_SIZE) as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise DataError(f"{printable(str(path))}: {reason_of(error)}") from None


def _is_binary(path: Path) -> bool:
    head = _head(path)
    return is_idx(head) or head[:2] == GZIP


def _names(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        names = labels_in(read_regular(path, LARGEST_LABELS))
    except OSError as error:
        raise DataError(f"{printable(str(path))}: {reason_of(error)}") from None
    if not names:
        raise DataError(f"{printable(str(path))} is not text with the name of a class in each line")
    return names
