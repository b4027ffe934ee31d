"""Pieces: answers of some examples of a shard, until all of it is there.

A shard on which workers die is cut: what has an answer lies in `pieces/`, a file for each range of examples,
with its hash beside it as parts have it.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from aisrv.addons.evaluate.folder.hashes import hash_path, is_hashed, write_hashed
from aisrv.addons.evaluate.folder.part_format import PartError, PartRows
from aisrv.addons.evaluate.folder.parts import Parts, load_part
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.values.whole_file import remove_left

PIECES: Final = "pieces"

_NAME: Final = re.compile(r"(\d{6,})-(\d+)-(\d+)\.parquet")


class Pieces:
    """The pieces of a run in its folder."""

    def __init__(self, folder: Path, parts: Parts) -> None:
        """Take the run's folder and its parts."""
        self._place = folder / PIECES
        self._parts = parts

    def path(self, shard: int, first: int, end: int) -> Path:
        """Return where the examples of a shard from `first` up to `end` are, or will be."""
        return self._place / f"{shard:06d}-{first}-{end}.parquet"

    def is_done(self, shard: int, first: int, end: int) -> bool:
        """Return whether the piece from `first` up to `end` is there, as it was written."""
        return is_hashed(self.path(shard, first, end))

    def write(self, shard: int, rows: PartRows) -> None:
        """Write a piece; OSError. It is left out where the whole part is there meanwhile."""
        self._place.mkdir(exist_ok=True)
        path = self.path(shard, rows.first, rows.first + len(rows.answers))
        write_hashed(path, self._parts.form.to_bytes(rows))
        if self._parts.is_done(shard):
            _remove(path)

    def read(self, shard: int, start: int, answers: Answers) -> None:
        """Take the answers of the pieces of a shard, which begins at example `start`; OSError.

        Those that are damaged are removed.
        """
        for path, first, end in self._of(shard):
            try:
                rows = load_part(path, self._parts.form, first, end)
            except PartError:
                _remove(path)
            else:
                answers.take(first - start, rows.answers, 0, end - first)

    def remove(self, shard: int) -> None:
        """Remove the pieces of a shard; OSError."""
        for path, _, _ in self._of(shard):
            _remove(path)

    def remove_all(self) -> None:
        """Remove the pieces of all shards, which a run that is complete does not need; OSError."""
        for path in self._place.glob("*-*-*.*"):
            path.unlink(missing_ok=True)
        if self._place.is_dir():
            remove_left(self._place)
            with suppress(OSError):  # a worker that was late writes there
                self._place.rmdir()

    def _of(self, shard: int) -> Iterator[tuple[Path, int, int]]:
        for path in sorted(self._place.glob(f"{shard:06d}-*.parquet")):
            match = _NAME.fullmatch(path.name)
            if match is not None:
                yield path, int(match[2]), int(match[3])


def _remove(path: Path) -> None:
    hash_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
