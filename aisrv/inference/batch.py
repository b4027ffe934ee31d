"""Many examples through one interpreter, in the shortest loop that there is.

Examples are rows: the bytes of all inputs one after another, and of all outputs. The module is imported by
every worker process: it must stay light.
"""

import mmap
import struct
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Final, NamedTuple, Self

from aisrv.inference.interpreter import Interpreter, TensorLayout

MEASUREMENTS: Final = 100
"""Times of a batch that are taken at most; a longer batch is timed in so many groups of runs."""
BLOCK_BYTES: Final = 1 << 15
"""Bytes of a block, through which small rows go: with its views it stays in the processor's caches."""
SMALL_ROW: Final = 2048
"""Bytes of the largest row that goes through a block; larger ones are run where they are."""
_VIEW_BYTES: Final = 256
"""What a view takes in memory, and some more."""

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


def timed(count: int, run: Callable[[int, int], None]) -> list[int]:
    """Run `count` rows, and return the mean nanoseconds of a run in each of MEASUREMENTS groups at most.

    `run` is called with the first row of each group, and the one after its last; what it raises is raised.
    """
    size = -(-count // MEASUREMENTS) or 1
    times = []
    start = perf_counter_ns()
    for first in range(0, count, size):
        end = min(first + size, count)
        run(first, end)
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
    """Rows in memory, cut into tensors."""

    def __init__(self, memory: memoryview, count: int, sizes: Sequence[int]) -> None:
        """Take the memory of `count` rows, one after another, whose tensors have `sizes` in bytes."""
        self._memory = memory
        self._count = count
        self._sizes = tuple(sizes)
        self._row_bytes = sum(sizes)

    @classmethod
    def mapped(cls, descriptor: int, area: RowArea, sizes: Sequence[int], *, writable: bool) -> Self:
        """Map a file with an area of rows. Raises ValueError."""
        if sum(sizes) != area.row_bytes:
            raise ValueError(f"rows have {area.row_bytes} bytes, the model's tensors {sum(sizes)}")
        start = area.offset - area.offset % mmap.ALLOCATIONGRANULARITY
        length = area.offset - start + area.row_bytes * area.rows
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        memory = memoryview(mmap.mmap(descriptor, length, access=access, offset=start))
        return cls(memory[area.offset - start :], area.rows, sizes)

    def part(self, first: int, count: int) -> memoryview:
        """Return the bytes of `count` rows from `first` on; ValueError if there are not as many."""
        if first + count > self._count:
            raise ValueError(f"rows {first} to {first + count} of {self._count}")
        return self._memory[first * self._row_bytes : (first + count) * self._row_bytes]

    def tensors(self, first: int, count: int) -> Tensors:
        """Return the tensors of `count` rows from `first` on; ValueError if there are not as many."""
        memory, found, offset = self.part(first, count), [], 0
        for size in self._sizes:
            starts = range(offset, len(memory), self._row_bytes) if self._row_bytes else [0] * count
            found.append([memory[start : start + size] for start in starts])
            offset += size
        return found


class _Block:
    """Small rows of inputs and outputs in memory of this process alone, with their tensors."""

    def __init__(self, layout: TensorLayout) -> None:
        sizes = sum(layout.inputs), sum(layout.outputs)
        views = (len(layout.inputs) + len(layout.outputs)) * _VIEW_BYTES
        self.rows = max(BLOCK_BYTES // (sum(sizes) + views), 1)
        self.memories = [memoryview(bytearray(self.rows * size)) for size in sizes]
        self.inputs = Rows(self.memories[0], self.rows, layout.inputs).tensors(0, self.rows)
        self.outputs = Rows(self.memories[1], self.rows, layout.outputs).tensors(0, self.rows)


class Batches:
    """An interpreter with its model, and the rows that it runs on."""

    def __init__(self, interpreter: Interpreter, layout: TensorLayout) -> None:
        """Take an interpreter that has loaded a model of a layout."""
        self._interpreter = interpreter
        self._layout = layout
        self._inputs: Rows | None = None
        self._outputs: Rows | None = None
        is_small = max(sum(layout.inputs), sum(layout.outputs)) <= SMALL_ROW
        self._block = _Block(layout) if is_small else None

    def map_inputs(self, descriptor: int, area: RowArea) -> None:
        """Map the file with inputs, which are only read."""
        self._inputs = Rows.mapped(descriptor, area, self._layout.inputs, writable=False)

    def map_outputs(self, descriptor: int, area: RowArea) -> None:
        """Map the file with room for outputs."""
        self._outputs = Rows.mapped(descriptor, area, self._layout.outputs, writable=True)

    def run(self, job: BatchJob) -> list[int]:
        """Run a batch; return times as `timed`."""
        rows, out, block = self._inputs, self._outputs, self._block
        if rows is None or out is None:
            raise ValueError("there are no rows")
        if block is None:
            inputs, outputs = rows.tensors(job.first, job.rows), out.tensors(job.into, job.rows)
            return timed(job.rows, partial(self._run_there, inputs, outputs))
        given, wanted = rows.part(job.first, job.rows), out.part(job.into, job.rows)
        return timed(job.rows, partial(self._run_in, block, given, wanted))

    def _run_there(self, inputs: Tensors, outputs: Tensors, first: int, end: int) -> None:
        run_batch(
            self._interpreter, [each[first:end] for each in inputs], [each[first:end] for each in outputs]
        )

    def _run_in(self, block: _Block, given: memoryview, wanted: memoryview, first: int, end: int) -> None:
        """Copy rows into the block, run them there, and copy the outputs out."""
        into, out = block.memories
        row, output = sum(self._layout.inputs), sum(self._layout.outputs)
        for start in range(first, end, block.rows):
            count = min(block.rows, end - start)
            into[: count * row] = given[start * row : (start + count) * row]
            run_batch(
                self._interpreter,
                [each[:count] for each in block.inputs],
                [each[:count] for each in block.outputs],
            )
            wanted[start * output : (start + count) * output] = out[: count * output]
