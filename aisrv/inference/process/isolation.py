"""An interpreter in a process of its own: if it dies, hangs or takes too much memory, that is an error.

Tensors are in memory that both processes share, so that only requests cross the socket. Source: "Inference
engines", section Isolation.
"""

import fcntl
import mmap
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import trio

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import TensorLayout, check_runs_models
from aisrv.inference.interpreters.tflm_shortage import load_error
from aisrv.inference.process.worker import FAILED, INVOKE, MAP, LoadRequest
from aisrv.inference.process.worker_process import (
    Ending,
    WorkerKind,
    WorkerProcess,
    WorkerSource,
    memory_file,
    new_worker,
)
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import DEFAULT_KIND, EngineKind

LogSink = Callable[[str], None]
"""Takes text for a debug log: one line or several."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a worker: address space in bytes (an idle one has 90 MB), and times in seconds."""

    memory_bytes: int = 1 << 30
    load_seconds: float = 30.0
    """From the start of the process, or from the request where a process was waiting, until the reply."""
    invoke_seconds: float = 60.0
    """Above 0; infinity is no limit."""


class IsolatedInterpreter:
    """One model in a worker process. One call at a time.

    A worker that dies or exceeds a limit, and one whose `load` or `invoke` is cancelled, is gone, killed
    and reaped, when the call ends. After an `invoke` that ended so, the next one starts a new worker with
    the same model and the inputs as they are; what the model kept in variables is lost. An error that the
    interpreter itself reports leaves the worker alive.
    """

    def __init__(
        self,
        log: LogSink,
        kind: EngineKind = DEFAULT_KIND,
        limits: Limits | None = None,
        workers: WorkerSource = new_worker,
    ) -> None:
        """Create one without a model; `log` gets what the worker prints.

        Raises EngineKindError for a kind without an interpreter.
        """
        check_runs_models(kind)
        self._limits = limits or Limits()
        self._kind = WorkerKind(kind, self._limits.memory_bytes)
        self._workers = workers
        self._log = log
        self._files: _SharedFiles | None = None
        self._worker: WorkerProcess | None = None
        self._layout = TensorLayout((), ())
        self._inputs: list[memoryview] = []
        self._outputs: list[memoryview] = []

    @property
    def layout(self) -> TensorLayout:
        """Sizes of the tensors; empty before `load` and after `close`."""
        return self._layout

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None while there is none."""
        return None if self._worker is None else self._worker.pid

    def input(self, number: int) -> memoryview:
        """Return the memory of an input: `invoke` starts from it, and leaves there what the run does."""
        return self._inputs[number][:]

    def output(self, number: int) -> memoryview:
        """Return the memory of an output: zeros until the first `invoke`, then the result of the last."""
        return self._outputs[number][:]

    async def load(self, model: bytes, arena_bytes: int) -> None:
        """Load a model into a worker; ModelError with the reason, and nothing is left."""
        self._release()
        try:
            self._files = _SharedFiles(model, arena_bytes, self._limits.invoke_seconds)
            layout = await self._start(self._files)
            memory = self._files.map_tensors(self._check_size(layout))
            await self._load_step("mapping the tensors", MAP)
        except _WorkerFailure as failure:
            self._release()
            raise load_error(str(failure), failure.load_result, failure.printed) from None
        except OSError as error:
            self._release()
            raise ModelError(str(error)) from None
        except BaseException:
            self._release()
            raise
        self._layout = layout
        self._inputs, self._outputs = layout.views(memory)

    async def invoke(self) -> None:
        """Run the model once on the inputs as they are; InvokeError with the reason."""
        if self._files is None:
            raise InvokeError("no model is loaded")
        try:
            if self._worker is None:
                await self._restart(self._files)
            await self._ask("running the model", INVOKE)
        except (_WorkerFailure, OSError) as failure:
            raise InvokeError(str(failure)) from None

    async def reset_variables(self) -> None:
        """Kill the worker: the next `invoke` starts one whose variables have their first values."""
        self._stop()
        await trio.lowlevel.checkpoint()

    async def close(self) -> None:
        """Kill the worker and forget the model. Views of its tensors stay readable."""
        self._release()
        await trio.lowlevel.checkpoint()

    async def _start(self, files: "_SharedFiles") -> TensorLayout:
        with ExitStack() as loading:
            try:
                self._worker = loading.enter_context(self._workers(self._kind))
            except OSError as error:
                raise _WorkerFailure(f"starting the interpreter's process: {error}") from None
            reply = await self._load_step("loading the model", files.load_request)
        try:
            return TensorLayout.from_bytes(reply)
        except ValueError as error:
            raise _WorkerFailure(f"loading the model: {error}") from None

    async def _restart(self, files: "_SharedFiles") -> None:
        try:
            if await self._start(files) != self._layout:
                raise _WorkerFailure("loading the model again gave tensors of other sizes")
            await self._load_step("mapping the tensors", MAP)
        except BaseException:
            self._stop()
            raise

    def _check_size(self, layout: TensorLayout) -> int:
        if layout.nbytes > self._limits.memory_bytes:
            raise _WorkerFailure(f"the tensors have {layout.nbytes:,} bytes, more than a worker may take")
        return layout.nbytes

    async def _load_step(self, doing: str, request: bytes | LoadRequest) -> bytes:
        """Send a request that must not take longer than a load; see `_ask`."""
        seconds = self._limits.load_seconds
        with trio.move_on_after(seconds):
            return await self._ask(doing, request)
        raise _WorkerFailure(f"{doing}: the interpreter {_too_long(seconds)}")

    async def _ask(self, doing: str, request: bytes | LoadRequest) -> bytes:
        """Send a request and return the reply; a worker that does not reply is stopped."""
        worker = self._worker
        assert worker is not None  # noqa: S101 - the caller saw to it
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            reply = await worker.exchange(request)
        except BaseException:
            self._stop()
            raise
        if not reply:
            ending = self._stop()
            raise _WorkerFailure(
                f"{doing}: the interpreter {self._describe(ending)}{_last_words(ending.printed)}",
                printed=ending.printed,
            )
        printed = worker.take_output()
        if printed:
            self._log(printed)
        if reply.startswith(FAILED):
            raise _WorkerFailure(
                f"{doing}: {reply[2:].decode(errors='replace')}", LoadResult(reply[1]), printed
            )
        return reply[1:]

    def _describe(self, ending: Ending) -> str:
        if ending.status == -signal.SIGALRM:
            return _too_long(self._limits.invoke_seconds)
        return str(ending)

    def _stop(self) -> Ending:
        """Kill the worker if it is still alive, and log what it printed last."""
        worker, self._worker = self._worker, None
        if worker is None:
            return Ending(0, "")
        ending = worker.stop()
        if ending.printed:
            self._log(ending.printed)
        return ending

    def _release(self) -> None:
        self._stop()
        if self._files is not None:
            self._files.close()
        self._files = None
        self._layout = TensorLayout((), ())
        self._inputs, self._outputs = [], []


def isolated(
    log: LogSink, *, kind: EngineKind = DEFAULT_KIND, limits: Limits | None = None
) -> IsolatedInterpreter:
    """Create a runner for `InferenceEngine` that gives each model a process of its own."""
    return IsolatedInterpreter(log, kind, limits)


class _WorkerFailure(Exception):
    """A worker that reported an error, died, or ran out of time; the text says which."""

    def __init__(self, text: str, load_result: LoadResult = LoadResult.OTHER, printed: str = "") -> None:
        super().__init__(text)
        self.load_result = load_result
        self.printed = printed


class _SharedFiles:
    """The files in memory that a worker gets: the model, and its tensors."""

    def __init__(self, model: bytes, arena_bytes: int, invoke_seconds: float) -> None:
        with ExitStack() as undo:
            model_file = memory_file("model", undo)
            self._tensors = memory_file("tensors", undo)
            with open(model_file, "wb", closefd=False) as file:
                file.write(model)
            # A restarted worker gets the model as it was.
            fcntl.fcntl(model_file, fcntl.F_ADD_SEALS, _FIXED_SIZE | fcntl.F_SEAL_WRITE)
            self.load_request: Final = LoadRequest(arena_bytes, invoke_seconds, model_file, self._tensors)
            self._closing = undo.pop_all()

    def map_tensors(self, size: int) -> memoryview:
        """Fix the size of the tensors' memory in bytes, and return the memory."""
        size = max(size, 1)  # memory of no bytes cannot be mapped
        os.ftruncate(self._tensors, size)
        # A worker that shrank it would take the parent down at the next access.
        fcntl.fcntl(self._tensors, fcntl.F_ADD_SEALS, _FIXED_SIZE)
        return memoryview(mmap.mmap(self._tensors, size))

    def close(self) -> None:
        self._closing.close()


_FIXED_SIZE: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def _too_long(seconds: float) -> str:
    return f"took more than {seconds:g} s and was stopped"


def _last_words(printed: str, count: int = 2) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"; it printed last: {'; '.join(lines[-count:])}" if lines else ""
