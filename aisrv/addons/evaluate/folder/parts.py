"""The parts of a run in its folder: what the examples of each shard have become, and how long that took.

A part is written aside and takes its name when it is whole; its hash, which is written last, says that it is
done. One without a hash, or with another, is made again, and so is one that is not of these data.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.folder.hashes import (
    HashError,
    disown,
    is_hashed,
    read_hashed,
    sha256,
    write_hash,
)
from aisrv.addons.evaluate.folder.part_format import PartError, PartFormat, PartRows
from aisrv.addons.evaluate.folder.sealed import seal, unseal
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.times import TimeCounts
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import remove_left, write_among_many

PARTS: Final = "parts"
TIMES: Final = "times"


@dataclass(frozen=True, slots=True)
class PartFile:
    """A part of a run, as its result lists it."""

    name: str
    sha256: str
    rows: int


def part_name(shard: int) -> str:
    """Return the name of the part of a shard."""
    return f"{shard:06d}.parquet"


class Parts:
    """The parts of a run in its folder."""

    def __init__(self, folder: Path, form: PartFormat) -> None:
        """Take the run's folder, and the format of its parts."""
        self.form: Final = form
        self._folder = folder

    def make_folders(self) -> None:
        """Make the folders of parts and times; OSError."""
        for each in (PARTS, TIMES):
            (self._folder / each).mkdir(parents=True, exist_ok=True)

    def path(self, shard: int) -> Path:
        """Return where the part of a shard is, or will be."""
        return self._folder / PARTS / part_name(shard)

    def is_done(self, shard: int) -> bool:
        """Return whether the part of a shard is there, as it was written."""
        return is_hashed(self.path(shard))

    def names(self) -> set[str]:
        """Return the names of all files in the folder of parts; OSError."""
        return set(os.listdir(self._folder / PARTS))  # noqa: PTH208 - of thousands of parts

    def write(self, shard: int, rows: PartRows, by: str, seconds: float | None = None) -> None:
        """Write the part of a shard, its times, and last its hash; OSError.

        `by` says who ran it, in how many seconds. Nothing is written where another has done it meanwhile: its
        part is the same, its times are not.
        """
        if self.is_done(shard):
            return
        content = self.form.to_bytes(rows)
        write_among_many(self.path(shard), [content], durable=True)
        times: dict[str, Any] = {
            "worker": by,
            "attempts": rows.answers.attempts[0],
            "histogram": rows.answers.times[0].values(),
        }
        if seconds is not None:
            times["seconds"] = round(seconds, 3)
        write_among_many(self._times_path(shard), [seal(times)])
        write_hash(self.path(shard), content)

    def remove_left(self) -> None:
        """Remove what killed writers left aside; OSError."""
        for each in (PARTS, TIMES):
            remove_left(self._folder / each)

    def load(self, shard: int, first: int, end: int) -> PartRows:
        """Return the part of a shard, with the examples from `first` up to `end`; PartError."""
        return load_part(self.path(shard), self.form, first, end)

    def read(self, answers: Answers, labels: npt.NDArray[Any]) -> list[PartError]:
        """Take the answers of all parts that are there; return what is wrong with those to be made again.

        These lose their hashes. `labels` are those of all examples; OSError.
        """
        there, refused = self.names(), []
        for shard in range(answers.shards):
            if part_name(shard) in there and not answers.is_complete(shard):
                try:
                    self.read_part(answers, shard, labels)
                except PartError as error:
                    disown(self.path(shard))
                    refused.append(error)
        return refused

    def read_part(self, answers: Answers, shard: int, labels: npt.NDArray[Any]) -> None:
        """Take the answers of one part, with its times; PartError. `labels` are those of all examples."""
        first, end = answers.bounds(shard)
        rows = self.load(shard, first, end)
        if not np.array_equal(rows.labels, labels[first:end], equal_nan=rows.labels.dtype.kind == "f"):
            raise PartError(f"{self.path(shard)}: its labels are not those of the data")
        times = self._times(shard)
        answers.take(first, rows.answers, 0, end - first)
        answers.times[shard] = times

    def listed(self, answers: Answers) -> list[PartFile]:
        """Return the parts of all shards that are complete, with their hashes; HashError."""
        return [
            PartFile(part_name(shard), sha256(read_hashed(self.path(shard))), end - first)
            for shard in range(answers.shards)
            if answers.is_complete(shard)
            for first, end in (answers.bounds(shard),)
        ]

    def _times_path(self, shard: int) -> Path:
        return self._folder / TIMES / f"{shard:06d}.json"

    def _times(self, shard: int) -> TimeCounts:
        path = self._times_path(shard)
        try:
            return TimeCounts(unseal(read_regular(path))["histogram"])
        except OSError as error:
            raise PartError(f"{path}: {error.strerror}") from None
        except (HashError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
            raise PartError(f"{path} is not as it was written") from None


def load_part(path: Path, form: PartFormat, first: int, end: int, digest: str | None = None) -> PartRows:
    """Return the rows of a part's file, which are to be the examples from `first` up to `end`; PartError.

    `digest` is the hash that it is to have, where another file says so.
    """
    try:
        content = read_hashed(path)
    except HashError as error:
        raise PartError(str(error)) from None
    if digest is not None and sha256(content) != digest:
        raise PartError(f"{path} is another one than the result lists")
    try:
        return form.from_bytes(content, first, end)
    except PartError as error:
        raise PartError(f"{path}: {error}") from None


def describe_refused(errors: Sequence[Exception]) -> str:
    """Say, in one line, that files are made again: why the first one is, and how many more."""
    more = f", and {len(errors) - 1:,} more: they are" if len(errors) > 1 else ": it is"
    return f"{errors[0]}{more} made again"
