"""The bytes of a part: a table in Parquet with a row for each of some examples that follow each other.

It holds no time, host or order: whoever makes it, its bytes are the same with one version of pyarrow. What is
read is compared with itself: the classes must be those that the outputs say.
"""

import io
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.data.parquet_costs import costs_of
from aisrv.addons.evaluate.data.parquet_layout import DICTIONARY, pages, read_layout
from aisrv.addons.evaluate.errors import EvaluateError, ExtraError
from aisrv.addons.evaluate.figures import Task, part_classes
from aisrv.addons.evaluate.running.answers import DIGEST_BYTES, Answers
from aisrv.values.extras import import_failure
from host_tools.tensors.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSION_LEVEL: Final = 3

FOREIGN: Final = (OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError)
"""What pyarrow and NumPy raise, beside exceptions of their own, of a table that is none."""


class PartError(EvaluateError):
    """A part that is damaged, or is none of the run."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or else its name."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def check_pyarrow() -> None:
    """Raise ExtraError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401 - whether it is there
    except ImportError as error:
        needed = import_failure("parts are tables in Parquet, which need pyarrow", error, "evaluate")
        raise ExtraError(f"{needed}; or --no-parts") from None


@dataclass(frozen=True, slots=True)
class PartRows:
    """What a part holds: examples that follow each other, all in one shard."""

    first: int
    """The number of the first one in the data set."""
    answers: Answers
    """Theirs alone, numbered from 0."""
    labels: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class PartFormat:
    """The columns of a run's parts."""

    outputs: tuple[TensorSpec, ...]
    """Those of the model."""
    task: Task
    has_files: bool
    """Whether examples are files, whose digests are kept."""

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs of an example."""
        return sum(spec.nbytes for spec in self.outputs)

    def to_bytes(self, rows: PartRows) -> bytes:
        """Return rows as the bytes of a part."""
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

    def from_bytes(self, content: bytes, first: int, end: int) -> PartRows:
        """Return the rows of a part, which are to be the examples from `first` up to `end`; PartError."""
        import pyarrow as pa

        try:
            table = self._read(content, end - first)
            return self._rows(table, first, end)
        except (pa.ArrowException, *FOREIGN) as error:
            raise PartError(first_line(error)) from None

    def _table(self, rows: PartRows) -> "pa.Table":
        import pyarrow as pa

        answers, count = rows.answers, len(rows.answers)
        types = self._types(is_real=rows.labels.dtype.kind == "f")
        columns: dict[str, Any] = {
            "index": pa.array(np.arange(rows.first, rows.first + count, dtype=np.int64)),
            "label": pa.array(rows.labels, types["label"]),
            "predicted": pa.array(part_classes(self.task, answers, self.outputs), pa.int32()),
            "failed": _reasons(answers),
        }
        if self.has_files:
            columns["content"] = pa.array([bytes(each) for each in answers.content], types["content"])
        at = 0
        for number, spec in enumerate(self.outputs):
            data = np.ascontiguousarray(answers.outputs[:, at : at + spec.nbytes])
            values = data.view(np.dtype(spec.dtype).newbyteorder("<")).ravel()
            columns[f"output{number}"] = pa.FixedSizeListArray.from_arrays(
                pa.array(values), values.size // max(count, 1)
            )
            at += spec.nbytes
        return pa.table(columns)

    def _types(self, *, is_real: bool) -> dict[str, "pa.DataType"]:
        """Return the types of the columns, in order; `is_real` where labels are real numbers."""
        import pyarrow as pa

        types = {
            "index": pa.int64(),
            "label": pa.float64() if is_real else pa.int32(),
            "predicted": pa.int32(),
            "failed": pa.string(),
        }
        if self.has_files:
            types["content"] = pa.binary(DIGEST_BYTES)
        for number, spec in enumerate(self.outputs):
            element = pa.field("element", pa.from_numpy_dtype(spec.dtype))
            types[f"output{number}"] = pa.list_(element, int(np.prod(spec.shape, dtype=np.int64)))
        return types

    def _read(self, content: bytes, count: int) -> "pa.Table":
        """Read a table whose size and columns are as they should be; what pyarrow raises, PartError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._check_size(memoryview(content), count)
        buffer = pa.py_buffer(content)
        file = pq.ParquetFile(pa.BufferReader(buffer))
        schema = file.schema_arrow
        there = dict(zip(schema.names, schema.types, strict=True))
        expected = self._types(is_real=str(there.get("label")) == "double")
        for name, kind in expected.items():
            if there.get(name) != kind:
                raise PartError(f"the column {name} is {there.get(name, 'missing')}, not {kind}")
        if schema.names != list(expected):
            raise PartError("it has other columns")
        # Reasons that repeat stay one. Without its threads, which at the end of a process may abort it.
        file = pq.ParquetFile(pa.BufferReader(buffer), read_dictionary=["failed"], pre_buffer=False)
        return file.read(use_threads=False)

    def _check_size(self, data: memoryview, count: int) -> None:
        """Raise PartError unless a table has as many values as its examples have, in pages of bounded size.

        Other errors of the layout are ValueError, LookupError and TypeError.
        """
        layout = read_layout(data)
        if layout.rows != count:
            raise PartError(f"{layout.rows} examples, not {count}")
        values: Counter[str] = Counter()
        for column in itertools.chain.from_iterable(layout.groups):
            values[column.path] += sum(page.values for page in pages(data, column) if page.kind != DICTIONARY)
        each = {f"output{number}": math.prod(spec.shape) for number, spec in enumerate(self.outputs)}
        for path, found in values.items():
            if found != count * each.get(path.partition(".")[0], 1):
                raise PartError(f"the column {path} has {found:,} values of {count:,} examples")
        if any(cost.is_delta for cost in costs_of(layout, data, list(values))):
            raise PartError("its values are encoded by what differs")

    def _rows(self, table: "pa.Table", first: int, end: int) -> PartRows:
        count = end - first
        if not np.array_equal(_values(table, "index"), np.arange(first, end)):
            raise PartError(f"not the examples {first} to {end - 1}")
        answers = Answers(count, self.output_bytes, max(count, 1), files=self.has_files)
        at = 0
        for number, spec in enumerate(self.outputs):
            values = np.ascontiguousarray(_values(table, f"output{number}"))
            answers.outputs[:, at : at + spec.nbytes] = values.view(np.uint8).reshape(count, -1)
            at += spec.nbytes
        if self.has_files:
            digests = b"".join(table["content"].to_pylist())
            answers.content[:] = np.frombuffer(digests, np.uint8).reshape(count, -1)
        answers.done[:] = True
        failed = table["failed"].unify_dictionaries().combine_chunks()
        reasons = failed.dictionary.to_pylist()
        for index, place in enumerate(failed.indices.to_pylist()):
            if place is not None:
                answers.failed[index] = reasons[place]
        if not np.array_equal(_values(table, "predicted"), part_classes(self.task, answers, self.outputs)):
            raise PartError("its classes are not those that its outputs say")
        return PartRows(first, answers, _values(table, "label"))


def _values(table: "pa.Table", name: str) -> npt.NDArray[Any]:
    """Return all numbers of a column, those of lists in a row; PartError where some are missing."""
    column = table[name].combine_chunks()
    values = column.flatten() if column.type.num_fields else column
    if column.null_count or values.null_count:
        raise PartError(f"the column {name} has gaps")
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


def _reasons(answers: Answers) -> "pa.Array":
    import pyarrow as pa

    if not answers.failed:
        return pa.nulls(len(answers), pa.string())
    return pa.array([answers.failed.get(index) for index in range(len(answers))], pa.string())
