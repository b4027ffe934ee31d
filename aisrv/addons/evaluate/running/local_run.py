"""A run on this machine: readers make rows, engine processes run batches of them, this process collects.

All share one memory of slots, each of which is room for a batch. A slot goes from hand to hand: it is filled,
run, collected, and filled again; what the processes are told are numbers of rows. A batch is 10 ms of work.
A batch that fails is run again, one example at a time: what fails then is a failed example.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import trio

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.mapped_rows import opened
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.reader_process import RowRead
from aisrv.addons.evaluate.running.readers import Reader, ReaderDied
from aisrv.inference.batch import BatchJob, RowArea
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.process.batches import BatchRunner, RowMemory
from aisrv.inference.process.isolation import Limits
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.heeded_signals import heeded

BATCH_SECONDS: Final = 0.01
"""Work of a batch: with batches of 5 ms the smallest models take 5 % more processor time."""
FIRST_ROWS: Final = 16
"""Runs of the first batch, by which the size of the others is chosen."""
LARGEST_BATCH: Final = 8192
SLOT_BYTES: Final = 8 << 20
"""Bytes of a slot at most."""
MAPPED_ROW_BYTES: Final = 4096
"""Rows of this size are run from the file of the data where it is mapped; smaller ones are copied."""
ARENA_BYTES: Final = 64 << 20
READ_SECONDS: Final = 60.0
"""Time that a batch of files may take to be read."""


Receiver = trio.MemoryReceiveChannel
Sender = trio.MemorySendChannel


class EngineError(EvaluateError):
    """An engine that does not take the model."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What runs, and in how many processes."""

    kind: EngineKind
    model: bytes
    processes: int
    """Engine processes; as many readers are there for files."""
    seconds: float = 60.0
    """Time that a run may take."""


@dataclass(slots=True)
class _Batch:
    slot: int
    first: int
    count: int


class LocalRun:
    """One run over what is missing of the answers; `stop` ends it early, with the batches in flight."""

    def __init__(
        self,
        settings: LocalSettings,
        data: DataSet,
        preparation: Preparation,
        answers: Answers,
        on_batch: Callable[[int, int], None],
    ) -> None:
        """Take what runs, the examples and how they become rows, and where answers go.

        `on_batch` is called with the first example of each batch that is done, and the one after its last.
        """
        self._settings = settings
        self._data = data
        self._preparation = preparation
        self._answers = answers
        self._on_batch = on_batch
        self._stopping = False
        self._cancelled = False
        self._error: EvaluateError | None = None
        self._size = FIRST_ROWS
        self._run_seconds = BATCH_SECONDS  # until one has run
        self._sized = trio.Event()
        self._printed: deque[str] = deque(maxlen=20)

    @property
    def was_stopped(self) -> bool:
        """Return whether the run was ended early."""
        return self._stopping

    @property
    def was_killed(self) -> bool:
        """Return whether it was ended at once, with what was in flight."""
        return self._cancelled

    def stop(self) -> None:
        """Begin no more batches."""
        self._stopping = True
        self._sized.set()

    async def run(self) -> None:
        """Run all that is missing; EngineError, InputError."""
        input_bytes, output_bytes = self._preparation.row_bytes, self._answers.outputs.shape[1]
        mapped = self._data.mapped if self._preparation.is_raw and input_bytes >= MAPPED_ROW_BYTES else None
        own_bytes = 0 if mapped else input_bytes
        self._rows = max(1, min(LARGEST_BATCH, SLOT_BYTES // (own_bytes + output_bytes or 1)))
        self._slots = 3 * self._settings.processes + 1
        memory = RowMemory(self._slots * self._rows, own_bytes, output_bytes)
        try:
            with opened(mapped) as descriptor:
                inputs = (memory.descriptor, memory.input_area)
                if mapped is not None:
                    inputs = (descriptor, RowArea(mapped.offset, input_bytes, len(self._data)))
                await self._run(memory, inputs, is_mapped=mapped is not None)
        finally:
            memory.close()

    async def _run(self, memory: RowMemory, inputs: tuple[int, RowArea], *, is_mapped: bool) -> None:
        self._memory, self._is_mapped = memory, is_mapped
        self._free, free = trio.open_memory_channel[int](self._slots)
        for slot in range(self._slots):
            self._free.send_nowait(slot)
        to_read, reading = trio.open_memory_channel[_Batch](self._slots)
        to_run, running = trio.open_memory_channel[_Batch](self._slots)
        limits = Limits(
            memory_bytes=(1 << 30) + inputs[1].row_bytes * inputs[1].rows,
            invoke_seconds=self._settings.seconds,
        )
        runners = [
            BatchRunner(self._printed.append, self._settings.kind, limits, inputs, memory)
            for _ in range(self._settings.processes)
        ]
        async with AsyncExitStack() as closing:
            for runner in runners:
                closing.push_async_callback(runner.close)
            async with trio.open_nursery() as loading:
                for runner in runners:
                    loading.start_soon(self._load, runner)
            self._raise_error()
            async with trio.open_nursery() as nursery:
                if threading.current_thread() is threading.main_thread():
                    nursery.start_soon(self._watch_interrupts, nursery.cancel_scope)
                async with trio.open_nursery() as work:
                    for runner in runners:
                        work.start_soon(self._serve_engine, runner, running.clone())
                    readers = self._settings.processes if self._data.files else 0
                    for _ in range(readers):
                        work.start_soon(self._serve_reader, reading.clone(), to_run.clone())
                    running.close()
                    reading.close()
                    work.start_soon(self._feed, free, to_read if readers else to_run)
                    (to_run if readers else to_read).close()
                nursery.cancel_scope.cancel()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    async def _load(self, runner: BatchRunner) -> None:
        try:
            await runner.load(self._settings.model, ARENA_BYTES)
        except ModelError as error:
            self._error = EngineError(f"{self._settings.kind}: {error}")

    async def _watch_interrupts(self, scope: trio.CancelScope) -> None:
        """End with the batches in flight at the first Ctrl-C, and at once at the second."""
        if not (numbers := heeded(signal.SIGINT)):
            return
        with trio.open_signal_receiver(*numbers) as signals:
            async for _ in signals:
                if self._stopping:
                    self._cancelled = True
                    scope.cancel()
                    return
                self.stop()

    async def _feed(self, free: Receiver[int], to: Sender[_Batch]) -> None:
        """Cut what is missing into batches, as slots are free."""
        async with to:
            for first, end in self._answers.missing():
                at = first
                while at < end:
                    slot = await free.receive()
                    if self._stopping:
                        return
                    batch = _Batch(slot, at, min(self._size, end - at))
                    self._answers.begin(at, at + batch.count)
                    if not self._data.files and not self._is_mapped:
                        await trio.lowlevel.checkpoint()
                        try:
                            self._fill(batch)
                        except EvaluateError as error:
                            self._error = error
                            return
                    await to.send(batch)
                    at += batch.count
                    await self._sized.wait()

    def _fill(self, batch: _Batch) -> None:
        into = batch.slot * self._rows
        parts = [array[batch.first : batch.first + batch.count] for array in self._data.arrays]
        self._memory.inputs[into : into + batch.count] = self._preparation.array_rows(parts)

    async def _serve_reader(self, jobs: Receiver[_Batch], to: Sender[_Batch]) -> None:
        reader = Reader(self._preparation, self._memory, READ_SECONDS)
        try:
            async with jobs, to:
                async for batch in jobs:
                    await self._read(reader, batch)
                    await to.send(batch)
        finally:
            await reader.stop()

    async def _read(self, reader: Reader, batch: _Batch) -> None:
        """Read the files of a batch, one at a time where they crash the reader."""
        files, into = self._data.files[batch.first : batch.first + batch.count], batch.slot * self._rows
        found: list[RowRead | None]
        try:
            found = list(await reader.read(into, files))
        except ReaderDied:
            self._answers.begin_again(batch.first)
            found = [await self._read_one(reader, batch, number) for number in range(batch.count)]
        if batch.count > 1 and not any(found):
            self._error = EvaluateError(f"readers end: {self._answers.failed[batch.first]}")
            self.stop()
        for index, read in enumerate(found, batch.first):
            if read is not None:
                self._answers.content[index] = bytearray(read.digest)
                if read.failure:
                    self._answers.failed[index] = read.failure

    async def _read_one(self, reader: Reader, batch: _Batch, number: int) -> RowRead | None:
        """Read one file of a batch; None where it crashed the reader."""
        index, row = batch.first + number, batch.slot * self._rows + number
        try:
            (read,) = await reader.read(row, [self._data.files[index]])
        except ReaderDied as death:
            self._memory.inputs[row] = 0
            self._answers.failed[index] = str(death)
            return None
        return read

    async def _serve_engine(self, runner: BatchRunner, jobs: Receiver[_Batch]) -> None:
        """Run batches, two in flight, until there are no more."""
        flight: deque[_Batch] = deque()
        async with jobs:
            while True:
                while len(flight) < 2:
                    try:
                        batch = jobs.receive_nowait() if flight else await jobs.receive()
                    except trio.WouldBlock:
                        break
                    except trio.EndOfChannel:
                        if not flight:
                            return
                        break
                    await self._start(runner, flight, batch)
                if flight:
                    await self._finish(runner, flight)

    async def _start(self, runner: BatchRunner, flight: deque[_Batch], batch: _Batch) -> None:
        try:
            await runner.start(self._job(batch, 0, batch.count))
        except InvokeError:
            await self._settle(runner, flight, [batch])
        else:
            flight.append(batch)

    async def _finish(self, runner: BatchRunner, flight: deque[_Batch]) -> None:
        batch = flight.popleft()
        try:
            times = await runner.finish()
        except InvokeError:
            await self._settle(runner, flight, [batch])
        else:
            self._collect(batch, times)

    async def _settle(self, runner: BatchRunner, flight: deque[_Batch], failed: list[_Batch]) -> None:
        """Take the answers of all batches in flight, then run those that failed one example at a time."""
        while flight:
            batch = flight.popleft()
            try:
                times = await runner.finish()
            except InvokeError:
                failed.append(batch)
            else:
                self._collect(batch, times)
        for batch in failed:
            await self._one_by_one(runner, batch)

    async def _one_by_one(self, runner: BatchRunner, batch: _Batch) -> None:
        self._answers.begin_again(batch.first)
        times: list[int] = []
        reasons: dict[int, str] = {}
        for number in range(batch.count):
            try:
                times += await runner.run(self._job(batch, number, 1))
            except InvokeError as error:
                reasons[batch.first + number] = str(error)
        self._collect(batch, tuple(times))
        for index, reason in reasons.items():
            self._answers.fail(index, self._answers.failed.get(index, reason))

    def _job(self, batch: _Batch, number: int, count: int) -> BatchJob:
        row = batch.slot * self._rows + number
        return BatchJob(batch.first + number if self._is_mapped else row, row, count)

    def _collect(self, batch: _Batch, times: Sequence[int]) -> None:
        row = batch.slot * self._rows
        self._answers.put(batch.first, self._memory.outputs[row : row + batch.count], tuple(times))
        if times:
            # The quickest batch says what a run takes; others waited for the processor.
            self._run_seconds = min(self._run_seconds, sum(times) / len(times) / 1e9)
        self._size = max(1, min(self._rows, round(BATCH_SECONDS / max(self._run_seconds, 1e-9))))
        self._sized.set()
        self._free.send_nowait(batch.slot)
        self._on_batch(batch.first, batch.first + batch.count)
