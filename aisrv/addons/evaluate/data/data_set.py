"""A data set as a value: what its examples are, what they are called, and what is right."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.data.mapped_rows import MappedRows
from aisrv.addons.evaluate.data.urls import Url
from aisrv.addons.evaluate.errors import DataError

Array = npt.NDArray[Any]

NO_LABEL: Final = -1
"""Class of an example that has none."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Examples in the order in which they are numbered, as arrays or as files.

    Arrays are in memory or mapped, one for each input of the model, with examples in the first dimension.
    """

    uri: str
    """Where it came from, as it was named."""
    kind: str
    """The form: folder, csv, parquet, npz, idx, wav or digits."""
    labels: Sequence[str] | Array
    """What is right, for each example: names of classes, or numbers."""
    listing_sha256: str
    """Of the listing: what examples there are, and their labels."""
    arrays: tuple[Array, ...] = ()
    files: Sequence[Path | Url | bytes] = ()
    """Where each example is, or the bytes of its file; empty for arrays."""
    names: Sequence[str] = ()
    """What each example is called; empty for arrays."""
    array_names: tuple[str, ...] = ()
    """The inputs that arrays are for, by name; empty where there is one."""
    hidden: int = 0
    """Files that were left out since their names begin with a dot."""
    note: str = ""
    """What a reader of the figures must know."""
    mapped: MappedRows | None = None
    """Where the one array lies in its file; None where it is not stored as it is."""
    recordings: npt.NDArray[np.intp] | None = None
    """Which recording each example is a window of, from 0; None where each stands for itself."""

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> str:
        """Return what an example is called, by its index; empty where it has no name."""
        return self.names[index] if self.names else ""

    def first(self, limit: int | None) -> "DataSet":
        """Return the same data up to `limit` examples; all of them for None."""
        if limit is None or limit >= len(self):
            return self
        digest = hashlib.sha256(f"{limit} of {self.listing_sha256}".encode()).hexdigest()
        return DataSet(
            self.uri,
            self.kind,
            self.labels[:limit],
            digest,
            tuple(array[:limit] for array in self.arrays),
            self.files[:limit],
            self.names[:limit],
            self.array_names,
            self.hidden,
            self.note,
            self.mapped,
            None if self.recordings is None else self.recordings[:limit],
        )


def class_names(data: DataSet, model: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the classes, from class 0: those `given`, else those of the model, else the data's.

    The names of data are sorted, unless all of them are numbers, which need none.
    """
    if given or model:
        return tuple(given or model)
    if isinstance(data.labels, np.ndarray) or all(_is_number(label) for label in set(data.labels)):
        return ()
    return tuple(sorted(set(data.labels)))


def class_indices(data: DataSet, names: Sequence[str], classes: int) -> npt.NDArray[np.int32]:
    """Return the class of each example, of as many classes as the model has.

    `names` are the classes by number. DataError for a label that is none of them.
    """
    if isinstance(data.labels, np.ndarray):
        numbers = data.labels
        if numbers.dtype.kind not in "iub" and not np.array_equal(numbers, np.rint(numbers)):
            raise DataError(
                f"{data.uri}: labels are not whole numbers; use --task regression for real numbers"
            )
        found = numbers.astype(np.int64)
    else:
        places = {name: number for number, name in enumerate(names)}
        found = np.array([_place(data, index, places) for index in range(len(data))], np.int64)
    outside = np.flatnonzero((found < 0) | (found >= classes))
    if len(outside):
        index = int(outside[0])
        raise DataError(
            f"{data.uri}: example {index} has the label {int(found[index])}, the model has {classes} classes"
        )
    return found.astype(np.int32)


def _place(data: DataSet, index: int, places: dict[str, int]) -> int:
    label = str(data.labels[index])
    if label in places:
        return places[label]
    if _is_number(label):
        return int(label)
    near = get_close_matches(label, places, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise DataError(f"{data.uri}: {label}: not a class of the model{hint}")


def check_recordings(data: DataSet, labels: npt.NDArray[np.int32]) -> None:
    """Raise DataError where windows of one recording have several of the `labels`, those of all examples."""
    if data.recordings is None:
        return
    _, firsts = np.unique(data.recordings, return_index=True)
    expected = labels[firsts][data.recordings]
    wrong = np.flatnonzero(expected != labels)
    if len(wrong):
        index = int(wrong[0])
        raise DataError(
            f"{data.uri}: example {index} has the label {labels[index]}, its recording began "
            f"with {expected[index]}"
        )


def real_labels(data: DataSet) -> npt.NDArray[np.float64]:
    """Return the labels as real numbers; DataError for one that is none."""
    try:
        return np.asarray(data.labels, np.float64)
    except ValueError as error:
        raise DataError(f"{data.uri}: labels must be numbers: {error}") from None


def _is_number(label: str) -> bool:
    return label.isascii() and label.isdigit()
