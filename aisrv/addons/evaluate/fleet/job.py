"""What workers need to run a shard, in the run's folder: tasks say only which examples they are for.

`fleet/job.json` has the settings, `fleet/model.tflite` the model, and `fleet/examples.parquet` the label of
each example, and its path if it is a file; in groups of rows as large as a shard, so that a worker reads the
rows of its own alone. The settings have the hashes of all that a worker reads.
"""

import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy.typing as npt

from aisrv.addons.evaluate.data.allowance import LARGEST_DATA
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.mapped_rows import MappedRows
from aisrv.addons.evaluate.data.opening import DIGITS, open_data
from aisrv.addons.evaluate.data.urls import is_url, source_of
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.figures import Task
from aisrv.addons.evaluate.folder.hashes import HashError
from aisrv.addons.evaluate.folder.part_format import FOREIGN, PartFormat, first_line
from aisrv.addons.evaluate.folder.plan import (
    PLAN_FILE,
    ModelFile,
    input_values,
    plan_difference,
    plan_hash,
    read_plan,
    versions,
)
from aisrv.addons.evaluate.folder.sealed import seal, unseal
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import FRONT_ENDS, InputSettings
from aisrv.addons.evaluate.request import Loaded, Request, in_order, read_model_file
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.regular_file import ANY_SIZE, opened_regular, read_regular
from aisrv.values.whole_file import write_whole
from host_tools.tensors.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER: Final = "fleet"
JOB_FILE: Final = "job.json"
MODEL_FILE: Final = "model.tflite"
EXAMPLES_FILE: Final = "examples.parquet"


class JobError(EvaluateError):
    """A worker that cannot do its part of a run; the message says why."""


class Job(msgspec.Struct, frozen=True):
    """The settings of a run."""

    model: str
    """Name of the model's file."""
    data: str
    """Absolute path of the data, their address, or the name of what aisrv brings."""
    labels: str | None
    columns: dict[str, str]
    limit: int | None
    has_paths: bool
    """Whether examples are files, whose paths or addresses are listed."""
    settings: tuple[InputSettings, ...]
    engine: str
    on: str
    task: Task
    seconds: float
    shard: int
    examples: int
    plan: str
    """Hash of the run's plan."""
    listed: list[str]
    """Hash of the labels, and the paths, of each shard's examples."""
    memory: int = LARGEST_DATA


def write_job(folder: Path, request: Request, loaded: Loaded) -> None:
    """Put what workers need into a run's folder; OSError. `loaded` is the request's model and data."""
    has_paths = bool(loaded.data.files) and not isinstance(loaded.data.files[0], bytes)
    columns = _columns(loaded, has_paths=has_paths)
    job = Job(
        loaded.file.name,
        request.data if request.data in DIGITS else _from_anywhere(request.data),
        None if request.labels is None else _from_anywhere(request.labels),
        dict(request.columns),
        request.limit,
        has_paths,
        tuple(map(_with_whole_path, loaded.settings)),
        str(request.kind),
        request.on,
        request.task.task,
        request.seconds,
        request.shard,
        len(loaded.data),
        plan_hash(read_plan(folder)),
        [
            _digest(columns.values(), first, min(first + request.shard, len(loaded.data)))
            for first in range(0, len(loaded.data), request.shard)
        ],
        int(request.memory),
    )
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    write_whole(place / MODEL_FILE, [loaded.file.data])
    write_whole(place / EXAMPLES_FILE, [_table_bytes(columns, request.shard)])
    write_whole(place / JOB_FILE, [seal(msgspec.to_builtins(job))])


def _with_whole_path(settings: InputSettings) -> InputSettings:
    """Return settings whose front end is found from any directory."""
    if not settings.frontend or settings.frontend in FRONT_ENDS:
        return settings
    return replace(settings, frontend=_from_anywhere(settings.frontend))


def _from_anywhere(name: str | Path) -> str:
    """Return a path as it is found from any directory, or an address as it is."""
    return str(name) if is_url(str(name)) else os.path.abspath(name)  # noqa: PTH100 - links stay


def _columns(loaded: Loaded, *, has_paths: bool) -> dict[str, "pa.Array"]:
    """Return what is listed of all examples, by the names of the columns."""
    import pyarrow as pa

    columns = {"label": pa.array(loaded.labels)}
    if has_paths:
        paths = (os.fsencode(_from_anywhere(os.fsdecode(each))) for each in loaded.data.files)
        columns["path"] = pa.array(paths, pa.binary())
    return columns


def _digest(columns: "Iterable[pa.Array]", first: int, end: int) -> str:
    """Return the hash of what columns list of the examples from `first` up to `end`."""
    found = hashlib.sha256()
    for column in columns:
        for value in column[first:end].to_pylist():
            text = value if isinstance(value, bytes) else repr(value).encode()
            found.update(b"%d %s\n" % (len(text), text))
    return found.hexdigest()


def _table_bytes(columns: "Mapping[str, pa.Array]", shard: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), content, compression="zstd", row_group_size=shard)
    return content.getvalue()


@dataclass(frozen=True, slots=True)
class Work:
    """A run as a worker has it: ready for any examples of it."""

    folder: Path
    job: Job
    file: ModelFile
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    preparation: Preparation
    data: DataSet | None
    """The whole data where examples are no files."""

    @property
    def kind(self) -> EngineKind:
        """Kind of the engine."""
        return EngineKind.parse(self.job.engine)

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs of an example."""
        return sum(spec.nbytes for spec in self.outputs)

    @property
    def form(self) -> PartFormat:
        """Format of the parts."""
        return PartFormat(self.outputs, self.job.task, self.has_files)

    @property
    def has_files(self) -> bool:
        """Return whether examples are files, of which digests are kept."""
        return self.data is None or bool(self.data.files)

    def examples(self, first: int, end: int) -> DataSet:
        """Return examples of one shard as a data set of their own; EvaluateError, OSError.

        They are numbered from `first` up to `end` in the whole data set.
        """
        if self.data is not None:
            return _rows_of(self.data, first, end)
        listed = self._listed(first, end)["path"].to_pylist()
        paths = [source_of(os.fsdecode(each)) for each in listed]
        return DataSet(self.job.data, "folder", [""] * len(paths), "", files=paths)

    def labels(self, first: int, end: int) -> npt.NDArray[Any]:
        """Return the labels of the same examples, from `first` up to `end`; EvaluateError, OSError."""
        found: npt.NDArray[Any] = self._listed(first, end)["label"].to_numpy()
        return found

    def _listed(self, first: int, end: int) -> "pa.Table":
        """Return what is listed of examples of one shard, all of which is as it was written."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / FOLDER / EXAMPLES_FILE
        shard, place = divmod(first, self.job.shard)
        try:
            with opened_regular(path, ANY_SIZE) as file:
                table = pq.ParquetFile(file).read_row_group(shard, use_threads=False)
            columns = [column.combine_chunks() for column in table.columns]
            names = ["label", *(["path"] if self.data is None else [])]
            whole = table.column_names == names and _digest(columns, 0, len(table)) == self.job.listed[shard]
        except (pa.ArrowException, *FOREIGN) as error:
            raise JobError(f"{path}: {first_line(error)}") from None
        if not whole:
            raise JobError(f"{path} is not as it was written: run again")
        return table.slice(place, end - first)


def read_work(folder: Path) -> Work:
    """Return the run of a folder; EvaluateError, OSError.

    It is refused where it would not give the bytes that the plan is for: other versions of packages, another
    model, data that changed or are not there.
    """
    plan = read_plan(folder)
    place = folder / FOLDER
    try:
        job = msgspec.convert(unseal(read_regular(place / JOB_FILE)), Job)
    except (HashError, msgspec.ValidationError) as error:
        raise JobError(f"{place / JOB_FILE}: {error}: run again") from None
    if plan_hash(plan) != job.plan:
        raise JobError(f"{folder / PLAN_FILE} is not as it was written: run again")
    file = ModelFile(job.model, read_regular(place / MODEL_FILE))
    kind = EngineKind.parse(job.engine)
    here = {
        "model": plan["model"] | {"sha256": file.sha256},
        "inputs": [
            input_values(each) | {"frontend": planned["frontend"]}  # which has another path there
            for each, planned in zip(job.settings, plan["inputs"], strict=True)
        ],
        "versions": versions(kind, job.settings),
    }
    found = plan_difference({name: plan[name] for name in here}, here)
    if found:
        raise JobError(found)
    _, inputs, outputs = read_model_file(file)
    if job.data not in DIGITS and not is_url(job.data) and not Path(job.data).exists():
        raise JobError(f"{job.data} is not there: data must be on a file system that all workers share")
    names = tuple(spec.name for spec in inputs)
    data = None if job.has_paths else _whole_data(job, plan["data"], names)
    return Work(folder, job, file, inputs, outputs, Preparation(inputs, job.settings), data)


def _whole_data(job: Job, plan: Mapping[str, Any], names: tuple[str, ...]) -> DataSet:
    labels = None if job.labels is None else Path(job.labels)
    data = open_data(job.data, labels, job.columns, job.memory)[0].first(job.limit)
    found = plan_difference({"data": plan}, {"data": dict(plan) | {"listing_sha256": data.listing_sha256}})
    if found:
        raise JobError(found)
    return in_order(data, names)


def _rows_of(data: DataSet, first: int, end: int) -> DataSet:
    """Return the examples from `first` up to `end` as a data set of their own."""
    mapped = data.mapped
    if mapped is not None:
        mapped = MappedRows(mapped.path, mapped.offset + first * data.arrays[0][0].nbytes)
    return replace(
        data,
        labels=data.labels[first:end],
        arrays=tuple(array[first:end] for array in data.arrays),
        files=data.files[first:end],
        names=data.names[first:end],
        mapped=mapped,
    )
