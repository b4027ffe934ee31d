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
from aisrv.values.extras import install_command
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import write_whole
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
    except ImportError:
        install = install_command("evaluate")
        raise ExtraError(
            f"parts are tables in Parquet, which need pyarrow: {install}; or --no-parts"
        ) from None


def part_name(shard: int) -> str:
    """Return the name of the part of a shard."""
    return f"{shard:06d}.parquet"


class Parts:
    """The parts of a run in its folder."""

    def __init__(
        self, folder: Path, outputs: Sequence[TensorSpec], labels: npt.NDArray[Any], *, files: bool
    ) -> None:
        """Make the folders; OSError. `outputs` are the model's, `labels` those of all examples.

        `files` says whether examples are files, whose digests are kept.
        """
        self._folder = folder
        self._outputs = outputs
        self._labels = labels
        self._files = files
        for each in (PARTS, TIMES):
            (folder / each).mkdir(parents=True, exist_ok=True)

    def write(self, answers: Answers, shard: int, predicted: npt.NDArray[np.int32], worker: str) -> None:
        """Write the part of a shard, and its times; OSError.

        `predicted` are the classes of its examples, and `worker` says who ran it.
        """
        import pyarrow.parquet as pq

        content = io.BytesIO()
        pq.write_table(
            self._table(answers, shard, predicted),
            content,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            row_group_size=max(answers.shard, 1),
            version="2.6",
            data_page_version="1.0",
        )
        write_whole(self._folder / PARTS / part_name(shard), [content.getvalue()], durable=True)
        times = {"worker": worker, "histogram": answers.times[shard].values()}
        data = json.dumps(times, sort_keys=True).encode()
        write_whole(self._folder / TIMES / f"{shard:06d}.json", [data])

    def _table(self, answers: Answers, shard: int, predicted: npt.NDArray[np.int32]) -> "pa.Table":
        import pyarrow as pa

        first, end = answers.bounds(shard)
        labels = self._labels[first:end]
        kind = pa.float64() if labels.dtype.kind == "f" else pa.int32()
        columns: dict[str, Any] = {
            "index": pa.array(np.arange(first, end, dtype=np.int64)),
            "label": pa.array(labels, kind),
            "predicted": pa.array(predicted, pa.int32()),
            "failed": pa.array([answers.failed.get(index) for index in range(first, end)], pa.string()),
        }
        if self._files:
            content = [bytes(each) for each in answers.content[first:end]]
            columns["content"] = pa.array(content, pa.binary(DIGEST_BYTES))
        at = 0
        for number, spec in enumerate(self._outputs):
            data = np.ascontiguousarray(answers.outputs[first:end, at : at + spec.nbytes])
            values = data.view(np.dtype(spec.dtype).newbyteorder("<")).ravel()
            elements = values.size // max(end - first, 1)
            columns[f"output{number}"] = pa.FixedSizeListArray.from_arrays(pa.array(values), elements)
            at += spec.nbytes
        return pa.table(columns)

    def read(self, answers: Answers) -> None:
        """Take the answers of all parts that are there; PartError for one that is none of this run."""
        for shard in range(answers.shards):
            path = self._folder / PARTS / part_name(shard)
            if path.exists():
                self._read_part(answers, shard, path)

    def _read_part(self, answers: Answers, shard: int, path: Path) -> None:
        table = _read(path)
        first, end = answers.bounds(shard)
        if table.column_names[:1] != ["index"] or table["index"].to_pylist() != list(range(first, end)):
            raise PartError(f"{path}: not the examples {first} to {end - 1}; remove it, and it is made again")
        at = 0
        for number, spec in enumerate(self._outputs):
            column = table[f"output{number}"].combine_chunks()
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
        answers.times[shard] = _times(self._folder / TIMES / f"{shard:06d}.json")

    def listed(self) -> list[PartFile]:
        """Return all parts with their hashes; PartError."""
        return list_parts(self._folder)


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
        return pq.read_table(io.BytesIO(read_regular(path)))
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
