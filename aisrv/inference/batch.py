"""Many examples through one interpreter, in the shortest loop that there is.

Examples are rows: the bytes of all inputs one after another, and of all outputs. The module is imported by
every worker process: it must stay light.
"""

import mmap
import struct
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final, NamedTuple, Self

from aisrv.inference.interpreter import Interpreter, TensorLayout

MEASUREMENTS: Final = 100
"""Times of a batch that are taken at most; a longer batch is timed in so many groups of runs."""
LARGEST_VIEWS: Final = 1 << 17
"""Rows whose views are kept for the next batch in the same place."""

_AREA: Final = struct.Struct("<3Q")
_JOB: Final = struct.Struct("<3Q")
_TIME: Final = struct.Struct("<I")
_LONGEST: Final = (1 << 32) - 1

Tensors = Sequence[Sequence[memoryview]]
"""The inputs, or the outputs, of examples: by tensor, then by example."""


def run_batch(interpreter: Interpreter, rows: Tensors, out: Tensors) -> None:
    """Run the model on each of the rows of inputs, and fill that of outputs; whatever the interpreter raises.

    Inputs are left as they are, even where the interpreter overwrites its own: they may be read-only. Where
    `invoke` raises, those outputs and the ones after them in `out` are as they were.
    """
    set_input, invoke, get_output = interpreter.set_input, interpreter.invoke, interpreter.get_output
    if len(rows) == len(out) == 1:
        for data, into in zip(rows[0], out[0], strict=True):
            set_input(0, data)
            invoke()
            get_output(0, into)
        return
    for inputs, outputs in zip(zip(*rows, strict=True), zip(*out, strict=True), strict=True):
        for number, data in enumerate(inputs):
            set_input(number, data)
        invoke()
        for number, into in enumerate(outputs):
            get_output(number, into)


def run_timed(interpreter: Interpreter, rows: Tensors, out: Tensors) -> list[int]:
    """Do as `run_batch`, and return the mean nanoseconds of a run in each of MEASUREMENTS groups at most."""
    count = len(rows[0])
    size = -(-count // MEASUREMENTS) or 1
    times = []
    start = perf_counter_ns()
    for first in range(0, count, size):
        end = min(first + size, count)
        run_batch(interpreter, [each[first:end] for each in rows], [each[first:end] for each in out])
        now = perf_counter_ns()
        times.append((now - start) // (end - first))
        start = now
    return times


class RowArea(NamedTuple):
    """Where in a file of memory rows lie: the first one, the bytes of each, and how many they are."""

    offset: int
    row_bytes: int
    rows: int

    def __bytes__(self) -> bytes:
        """Pack the fields as u64, little-endian."""
        return _AREA.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Unpack `data`, which `__bytes__` gave; ValueError for anything else."""
        try:
            return cls(*_AREA.unpack(data))
        except struct.error as error:
            raise ValueError(f"{len(data)} bytes are not an area of rows: {error}") from None


class BatchJob(NamedTuple):
    """A batch: its first row of inputs, its first row of outputs, and how many rows it has."""

    first: int
    into: int
    rows: int

    def __bytes__(self) -> bytes:
        """Pack the fields as u64, little-endian."""
        return _JOB.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Unpack `data`, which `__bytes__` gave; ValueError for anything else."""
        try:
            return cls(*_JOB.unpack(data))
        except struct.error as error:
            raise ValueError(f"{len(data)} bytes are not a batch: {error}") from None


def pack_times(times: Sequence[int]) -> bytes:
    """Pack times in nanoseconds as u32, little-endian; longer ones are cut to 4.29 s."""
    return b"".join(_TIME.pack(min(each, _LONGEST)) for each in times)


def unpack_times(data: bytes) -> tuple[int, ...]:
    """Unpack `data`, which `pack_times` gave; ValueError for anything else."""
    if len(data) % _TIME.size:
        raise ValueError(f"{len(data)} bytes are not times")
    return struct.unpack(f"<{len(data) // _TIME.size}I", data)


class Rows:
    """Rows in mapped memory, cut into tensors."""

    def __init__(self, descriptor: int, area: RowArea, sizes: Sequence[int], *, writable: bool) -> None:
        """Map a file with an area of rows, whose tensors have `sizes` in bytes. Raises ValueError."""
        if sum(sizes) != area.row_bytes:
            raise ValueError(f"rows have {area.row_bytes} bytes, the model's tensors {sum(sizes)}")
        start = area.offset - area.offset % mmap.ALLOCATIONGRANULARITY
        length = area.offset - start + area.row_bytes * area.rows
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._memory = memoryview(mmap.mmap(descriptor, length, access=access, offset=start))
        self._memory = self._memory[area.offset - start :]
        self._area = area
        self._sizes = tuple(sizes)
        self._kept: dict[int, Tensors] = {}
        """Views by their first row."""

    def part(self, first: int, count: int) -> Tensors:
        """Return rows from `first` on, as many as `count`; ValueError if there are not as many."""
        if first + count > self._area.rows:
            raise ValueError(f"rows {first} to {first + count} of {self._area.rows}")
        views = self._kept.get(first, ())
        if not views or len(views[0]) < count:
            views = self._views(first, count)
            if sum(len(each[0]) for each in self._kept.values()) + count > LARGEST_VIEWS:
                self._kept.clear()
            self._kept[first] = views
        return [each[:count] for each in views]

    def _views(self, first: int, count: int) -> Tensors:
        found, offset, row_bytes = [], 0, self._area.row_bytes
        for size in self._sizes:
            starts = range(first * row_bytes + offset, (first + count) * row_bytes + offset, row_bytes)
            found.append([self._memory[start : start + size] for start in starts])
            offset += size
        return found


class Batches:
    """An interpreter with its model, and the rows that it runs on."""

    def __init__(self, interpreter: Interpreter, layout: TensorLayout) -> None:
        """Take an interpreter that has loaded a model of a layout."""
        self._interpreter = interpreter
        self._layout = layout
        self._inputs: Rows | None = None
        self._outputs: Rows | None = None

    def map_inputs(self, descriptor: int, area: RowArea) -> None:
        """Map the file with inputs, which are only read."""
        self._inputs = Rows(descriptor, area, self._layout.inputs, writable=False)

    def map_outputs(self, descriptor: int, area: RowArea) -> None:
        """Map the file with room for outputs."""
        self._outputs = Rows(descriptor, area, self._layout.outputs, writable=True)

    def run(self, job: BatchJob) -> list[int]:
        """Run a batch; return times as `run_timed`."""
        if self._inputs is None or self._outputs is None:
            raise ValueError("there are no rows")
        rows = self._inputs.part(job.first, job.rows)
        return run_timed(self._interpreter, rows, self._outputs.part(job.into, job.rows))
