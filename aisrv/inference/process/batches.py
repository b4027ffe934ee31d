"""A model in a worker process that runs whole batches, of rows in memory that both processes have.

What `IsolatedInterpreter` holds to holds here: a worker that dies or takes too long is gone, and the next
batch starts another. Two batches may be in flight, so that a worker need not wait for its parent.
"""

import mmap
import os
from contextlib import ExitStack
from typing import Final

import numpy as np
import numpy.typing as npt
import trio

from aisrv.inference.batch import BatchJob, RowArea, unpack_times
from aisrv.inference.errors import InvokeError
from aisrv.inference.interpreter import LogSink
from aisrv.inference.process.isolation import IsolatedInterpreter, Limits, SharedFiles, WorkerFailure
from aisrv.inference.process.worker import BATCH, MAP_INPUTS, MAP_OUTPUTS
from aisrv.inference.process.worker_process import memory_file
from aisrv.protocol.engine_kind import EngineKind

Matrix = npt.NDArray[np.uint8]


class RowMemory:
    """Memory for rows of inputs and of outputs, as a file that other processes map."""

    def __init__(self, rows: int, input_bytes: int, output_bytes: int) -> None:
        """Make room for rows of as many bytes each; OSError. Rows of inputs may have none."""
        import fcntl  # where there are such files

        page = mmap.PAGESIZE
        inputs = -(-rows * input_bytes // page) * page
        size = inputs + rows * output_bytes
        with ExitStack() as undo:
            self.descriptor: Final = memory_file("rows", undo)
            os.ftruncate(self.descriptor, max(size, 1))
            # A process that shrank it would take the others down at the next access.
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            memory = mmap.mmap(self.descriptor, max(size, 1))
            self._closing = undo.pop_all()
        self.input_area: Final = RowArea(0, input_bytes, rows)
        self.output_area: Final = RowArea(inputs, output_bytes, rows)
        whole = np.frombuffer(memory, np.uint8)
        self.inputs: Final[Matrix] = whole[: rows * input_bytes].reshape(rows, input_bytes)
        """[rows, bytes of all inputs]."""
        self.outputs: Final[Matrix] = whole[inputs : inputs + rows * output_bytes].reshape(rows, output_bytes)
        """[rows, bytes of all outputs]."""

    def close(self) -> None:
        """Close the file; the memory stays as long as somebody has it."""
        self._closing.close()


class BatchRunner(IsolatedInterpreter):
    """One model in a worker process, for batches of rows: `load`, then `start` and `finish` in turns."""

    def __init__(
        self, log: LogSink, kind: EngineKind, limits: Limits, inputs: tuple[int, RowArea], memory: RowMemory
    ) -> None:
        """Create one without a model.

        `log` gets what the worker prints. `inputs` are the file with the rows of inputs and where they are in
        it, `memory` has room for the outputs.
        """
        super().__init__(log, kind, limits)
        self._given = inputs
        self._memory = memory

    async def run(self, job: BatchJob) -> tuple[int, ...]:
        """Run a batch; nanoseconds a run, for groups of runs. InvokeError with the reason."""
        await self.start(job)
        return await self.finish()

    async def start(self, job: BatchJob) -> None:
        """Have the worker begin with a batch when it is done with those before; InvokeError."""
        if self._files is None:
            raise InvokeError("no model is loaded")
        try:
            if self._worker is None:
                await self._restart(self._files)
            assert self._worker is not None  # noqa: S101 - it was started
            self._worker.post(BATCH + bytes(job))
        except (WorkerFailure, OSError) as failure:
            raise InvokeError(str(failure)) from None

    async def finish(self) -> tuple[int, ...]:
        """Wait for the oldest batch; nanoseconds a run, for groups of runs. InvokeError with the reason."""
        doing, seconds = "running the model", self._limits.invoke_seconds
        try:
            with trio.move_on_after(seconds + 1):
                reply = await self._reply(doing)
                return unpack_times(reply)
            await self._stop()
            raise WorkerFailure(f"{doing}: the interpreter took more than {seconds:g} s and was stopped")
        except (WorkerFailure, ValueError) as failure:
            raise InvokeError(str(failure)) from None

    async def _map(self, _files: SharedFiles) -> None:
        """Map rows in place of the tensors of single runs."""
        descriptor, inputs = self._given
        await self._load_step("mapping the inputs", MAP_INPUTS + bytes(inputs), descriptor)
        outputs = MAP_OUTPUTS + bytes(self._memory.output_area)
        await self._load_step("mapping the outputs", outputs, self._memory.descriptor)
