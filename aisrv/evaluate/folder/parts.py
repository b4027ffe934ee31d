"""Parts: what the examples of a shard have become, as tables in Parquet.

A part holds no time, host or order: whoever makes it, its bytes are the same with one version of pyarrow. It
is written aside and takes its name when it is whole; one that is there is done.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.evaluate.errors import EvaluateError, ExtraError
from aisrv.evaluate.running.answers import DIGEST_BYTES, Answers
from aisrv.evaluate.running.times import TimeCounts
from aisrv.values.extras import import_failure
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import remove_left, write_among_many
from host_tools.tensors.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

PARTS: Final = "parts"
TIMES: Final = "times"
COMPRESSION_LEVEL: Final = 3


class PartError(EvaluateError):
    """A part that is damaged, or is none of the run."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A part of a run, as its result lists it."""

    name: str
    sha256: str
    rows: int


def check_pyarrow() -> None:
    """Raise ExtraError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401 - whether it is there
    except ImportError as error:
        needed = import_failure("parts are tables in Parquet, which need pyarrow", error, "evaluate")
        raise ExtraError(f"{needed}; or --no-parts") from None


def part_name(shard: int) -> str:
    """Return the name of the part of a shard."""
    return f"{shard:06d}.parquet"


@dataclass(frozen=True, slots=True)
class PartRows:
    """What a part holds: examples that follow each other, all in one shard."""

    first: int
    """The number of the first one in the data set."""
    answers: Answers
    """Theirs alone, numbered from 0."""
    labels: npt.NDArray[Any]
    predicted: npt.NDArray[np.int32]
    """The class of each, as the outputs say."""


class Parts:
    """The parts of a run in its folder."""

    def __init__(self, folder: Path, outputs: Sequence[TensorSpec], *, files: bool) -> None:
        """Make the folders; OSError. `outputs` are the model's.

        `files` says whether examples are files, whose digests are kept.
        """
        self._folder = folder
        self._outputs = outputs
        self._files = files
        for each in (PARTS, TIMES):
            (folder / each).mkdir(parents=True, exist_ok=True)

    def path(self, shard: int) -> Path:
        """Return where the part of a shard is, or will be."""
        return self._folder / PARTS / part_name(shard)

    def write(self, shard: int, rows: PartRows, by: str, seconds: float | None = None) -> None:
        """Write the part of a shard, and its times; OSError.

        `by` says who ran it, in how many seconds.
        """
        write_among_many(self.path(shard), [self.content(rows)], durable=True)
        times: dict[str, Any] = {
            "worker": by,
            "attempts": rows.answers.attempts[0],
            "histogram": rows.answers.times[0].values(),
        }
        if seconds is not None:
            times["seconds"] = round(seconds, 3)
        data = json.dumps(times, sort_keys=True).encode()
        write_among_many(self._folder / TIMES / f"{shard:06d}.json", [data])

    def remove_left(self) -> None:
        """Remove what killed writers left aside; OSError."""
        for each in (PARTS, TIMES):
            remove_left(self._folder / each)

    def content(self, rows: PartRows) -> bytes:
        """Return the bytes of a part."""
        import pyarrow.parquet as pq

        content = io.BytesIO()
        pq.write_table(
            self._table(rows),
            content,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            row_group_size=max(rows.answers.shard, 1),
            version="2.6",
            data_page_version="1.0",
        )
        return content.getvalue()

    def _table(self, rows: PartRows) -> "pa.Table":
        import pyarrow as pa

        answers, count = rows.answers, len(rows.answers)
        kind = pa.float64() if rows.labels.dtype.kind == "f" else pa.int32()
        columns: dict[str, Any] = {
            "index": pa.array(np.arange(rows.first, rows.first + count, dtype=np.int64)),
            "label": pa.array(rows.labels, kind),
            "predicted": pa.array(rows.predicted, pa.int32()),
            "failed": _reasons(answers),
        }
        if self._files:
            content = [bytes(each) for each in answers.content]
            columns["content"] = pa.array(content, pa.binary(DIGEST_BYTES))
        at = 0
        for number, spec in enumerate(self._outputs):
            data = np.ascontiguousarray(answers.outputs[:, at : at + spec.nbytes])
            values = data.view(np.dtype(spec.dtype).newbyteorder("<")).ravel()
            columns[f"output{number}"] = pa.FixedSizeListArray.from_arrays(
                pa.array(values), values.size // max(count, 1)
            )
            at += spec.nbytes
        return pa.table(columns)

    def read(self, answers: Answers) -> None:
        """Take the answers of all parts that are there; PartError for one that is none of this run."""
        for shard in range(answers.shards):
            if self.path(shard).exists():
                self.read_part(answers, shard)

    def read_part(self, answers: Answers, shard: int) -> None:
        """Take the answers of one part, with its times; PartError."""
        first, end = answers.bounds(shard)
        self.read_rows(self.path(shard), answers, first, end)
        answers.times[shard] = _times(self._folder / TIMES / f"{shard:06d}.json")

    def read_rows(
        self, path: Path, answers: Answers, first: int, end: int, number: int | None = None
    ) -> None:
        """Take the answers of a file, which are to be those from `first` up to `end`; PartError.

        `number` is the number of the first one in the data set, where answers are not numbered as it is.
        """
        table = _read(path)
        start = first if number is None else number
        wanted = list(range(start, start + end - first))
        if table.column_names[:1] != ["index"] or table["index"].to_pylist() != wanted:
            raise PartError(
                f"{path}: not the examples {start} to {wanted[-1]}; remove it, and it is made again"
            )
        at = 0
        for output, spec in enumerate(self._outputs):
            column = table[f"output{output}"].combine_chunks()
            values = np.ascontiguousarray(column.flatten().to_numpy(zero_copy_only=False))
            part = values.view(np.uint8).reshape(end - first, -1)
            answers.outputs[first:end, at : at + spec.nbytes] = part
            at += spec.nbytes
        if self._files:
            answers.content[first:end] = [list(each) for each in table["content"].to_pylist()]
        answers.done[first:end] = True
        for index, reason in enumerate(table["failed"].to_pylist(), first):
            if reason is not None:
                answers.failed[index] = reason

    def listed(self) -> list[PartFile]:
        """Return all parts with their hashes; PartError."""
        return list_parts(self._folder)


def _reasons(answers: Answers) -> "pa.Array":
    import pyarrow as pa

    if not answers.failed:
        return pa.nulls(len(answers), pa.string())
    return pa.array([answers.failed.get(index) for index in range(len(answers))], pa.string())


def _times(path: Path) -> TimeCounts:
    """Return the times of a shard; none where the file is not there, as after a writer was killed."""
    try:
        return TimeCounts(json.loads(read_regular(path))["histogram"])
    except (OSError, ValueError, KeyError, TypeError):
        return TimeCounts()


def _read(path: Path) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without its threads, which at the end of a process may abort it.
        return pq.ParquetFile(io.BytesIO(read_regular(path))).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise PartError(f"{path}: {error}; remove it, and it is made again") from None


def list_parts(folder: Path) -> list[PartFile]:
    """Return the parts of a run's folder with their hashes, in order; PartError."""
    found = []
    for path in sorted((folder / PARTS).glob("*.parquet")):
        try:
            data = read_regular(path)
        except OSError as error:
            raise PartError(f"{path}: {error.strerror}") from None
        found.append(PartFile(path.name, hashlib.sha256(data).hexdigest(), _rows(path, data)))
    return found


def _rows(path: Path, data: bytes) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(io.BytesIO(data)).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise PartError(f"{path}: {error}; remove it, and it is made again") from None


def verify_parts(folder: Path, examples: int, listed: Sequence[PartFile]) -> list[str]:
    """Return what is wrong with a run's parts: `examples` are to be there once, with hashes as `listed`."""
    problems = []
    found = {each.name: each for each in list_parts(folder)}
    for each in listed:
        if each.name not in found:
            problems.append(f"{each.name} is missing")
        elif found[each.name].sha256 != each.sha256:
            problems.append(f"{each.name} is not as it was: sha256 {found[each.name].sha256[:8]}")
    problems += [f"{name} is not listed" for name in found if name not in {each.name for each in listed}]
    counts = np.zeros(examples, np.int64)
    for name in found:
        indices = _read(folder / PARTS / name)["index"].to_numpy()
        if ((indices < 0) | (indices >= examples)).any():
            problems.append(f"{name} has examples that there are not")
            continue
        np.add.at(counts, indices, 1)
    for text, wrong in (("is missing", counts == 0), ("is there more than once", counts > 1)):
        places = np.flatnonzero(wrong)
        if len(places):
            problems.append(f"example {places[0]} {text}, and {len(places) - 1} more")
    return problems


def part_answers(folder: Path) -> "pa.Table":
    """Return index, label, predicted class and failure of all examples of a run's folder; PartError."""
    import pyarrow as pa

    tables = [_read(path) for path in sorted((folder / PARTS).glob("*.parquet"))]
    if not tables:
        raise PartError(f"{folder}: no parts")
    return pa.concat_tables([each.select(["index", "label", "predicted", "failed"]) for each in tables])
