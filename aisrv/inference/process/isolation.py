"""An interpreter in a process of its own: if it dies, hangs or takes too much memory, that is an error.

Tensors are in memory that both processes share, so that only requests cross the socket. Source: "Inference
engines", section Isolation.
"""

import mmap
import os
import signal
import struct
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeVar

import trio
from msgspec import Struct

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import InPlaceModel, LogSink, ModelBytes, TensorLayout, check_runs_models
from aisrv.inference.interpreters.tflm_shortage import load_error
from aisrv.inference.process.sandbox_layers import prepared_sandbox
from aisrv.inference.process.tensor_memory import TensorMemory
from aisrv.inference.process.worker import (
    CHANGED,
    COUNT,
    DONE,
    FAILED,
    INVOKE,
    LINES,
    LOAD,
    MAP,
    LoadRequest,
)
from aisrv.inference.process.worker_process import (
    Ending,
    WorkerKind,
    WorkerLies,
    WorkerProcess,
    WorkerSource,
    memory_file,
    new_worker,
)
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.values.printable import printable

T = TypeVar("T")

_NOTHING: Final = struct.Struct("")
ALARM_SECONDS: Final = 1.0
"""Time that a run past its limit has to end by the process's own alarm, before its parent ends it."""


class Limits(Struct, frozen=True):
    """Limits of a worker: address space in bytes (an idle one has 90 MB), and times in seconds."""

    memory_bytes: int = 1 << 30
    load_seconds: float = 30.0
    """Time from the start of the process, or from the request if a process was waiting, until the reply."""
    invoke_seconds: float = 60.0
    """Above 0; infinity is no limit."""


class IsolatedInterpreter(TensorMemory):
    """One model in a worker process. One call at a time.

    A worker that dies or exceeds a limit, and one whose `load` or `invoke` is cancelled, is gone, killed
    and reaped, when the call ends. After an `invoke` that ended so, the next one starts a new worker with
    the same model and the inputs as they are; what the model kept in variables is lost. An error that the
    interpreter itself reports leaves the worker alive.
    """

    def __init__(
        self,
        log: LogSink,
        kind: EngineKind | None = None,
        limits: Limits | None = None,
        workers: WorkerSource = new_worker,
    ) -> None:
        """Create one without a model; `log` gets what the worker prints. Raises EngineKindError."""
        kind = kind or default_kind()
        check_runs_models(kind)
        super().__init__()
        self._limits = limits or Limits()
        self._kind = WorkerKind(kind, self._limits.memory_bytes)
        self._workers = workers
        self._log = log
        self._files: SharedFiles | None = None
        self._worker: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None if there is none."""
        return None if self._worker is None else self._worker.pid

    async def compute(self, function: Callable[[], T]) -> T:
        """Call it on a thread, as a host may make it long; a call that is cancelled leaves it to itself."""
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)

    async def load(self, model: ModelBytes, arena_bytes: int, in_place: InPlaceModel | None = None) -> None:
        """Load a model into a worker, or none if it raises ModelError."""
        await self._release()
        try:
            self._files = SharedFiles(arena_bytes, in_place)
            if in_place is None:
                await self._files.write_model(model)
            layout = await self._start(self._files)
            memory = self._files.map_tensors(self._check_size(layout))
            await self._map(self._files)
        except WorkerFailure as failure:
            await self._release()
            raise load_error(str(failure), failure.load_result, failure.printed) from None
        except OSError as error:
            await self._release()
            raise ModelError(str(error)) from None
        except BaseException:
            await self._release()
            raise
        self._place(layout, memory)

    async def invoke(self) -> None:
        """Run the model once on the inputs as they are. Raises InvokeError."""
        await self._invoke(INVOKE, _NOTHING)

    async def invoke_counted(self) -> int:
        """Run a model that runs in place; return the lines filled of the cache before its storage."""
        (lines,) = await self._invoke(COUNT, LINES)
        return int(lines)

    async def _invoke(self, request: bytes, reply: struct.Struct) -> tuple[int, ...]:
        if self._files is None:
            raise InvokeError("no model is loaded")
        try:
            if self._worker is None:
                await self._restart(self._files)
            elif self._files.take_change() and await self._ask("reading the model's code anew", CHANGED):
                await self._stop()
                raise WorkerFailure("the interpreter's process says more than it was asked")
            return await self._run(request, reply)
        except (WorkerFailure, OSError) as failure:
            raise InvokeError(str(failure)) from None

    async def reset_variables(self) -> None:
        """Kill the worker: the next `invoke` starts one whose variables have their first values."""
        await self._stop()
        await trio.lowlevel.checkpoint()

    async def close(self) -> None:
        """Kill the worker and unload the model. Views of its tensors stay readable."""
        await self._release()
        await trio.lowlevel.checkpoint()

    async def _start(self, files: "SharedFiles") -> TensorLayout:
        with ExitStack() as loading:
            try:
                self._worker = loading.enter_context(self._workers(self._kind))
            except OSError as error:
                raise WorkerFailure(f"starting the interpreter's process: {error}") from None
            request = LoadRequest(
                files.arena_bytes,
                self._limits.invoke_seconds,
                await prepared_sandbox(writing=self._kind.interpreter.variant.written_folder is not None),
                files.offset,
            )
            reply = await self._load_step("loading the model", LOAD + bytes(request), files.model)
        try:
            return TensorLayout.from_bytes(reply)
        except ValueError as error:
            raise WorkerFailure(f"loading the model: {error}") from None

    async def _restart(self, files: "SharedFiles") -> None:
        try:
            if await self._start(files) != self._layout:
                raise WorkerFailure("loading the model again gave tensors of other sizes")
            await self._map(files)
        except BaseException:
            await self._stop()
            raise

    async def _map(self, files: "SharedFiles") -> None:
        if await self._load_step("mapping the tensors", MAP, files.tensors):
            raise WorkerFailure(
                "mapping the tensors: the interpreter's process answered more than it was asked"
            )

    async def _run(self, request: bytes, reply: struct.Struct) -> tuple[int, ...]:
        """Run the model; a process that does not even obey its own alarm is ended a little later."""
        doing, seconds = "running the model", self._limits.invoke_seconds
        await self._send(request)  # first, so that the worker begins before the scope is made
        with trio.move_on_after(seconds + ALARM_SECONDS):
            answer = await self._reply(doing)
            if len(answer) != reply.size:
                await self._stop()
                raise WorkerFailure(
                    f"{doing}: the interpreter's process answered {len(answer)} bytes for {reply.size}"
                )
            return reply.unpack(answer)
        raise WorkerFailure(f"{doing}: the interpreter {_too_long(seconds)}")

    def _check_size(self, layout: TensorLayout) -> int:
        if layout.nbytes > self._limits.memory_bytes:
            raise WorkerFailure(f"the tensors have {layout.nbytes:,} bytes, more than a worker may take")
        return layout.nbytes

    async def _load_step(self, doing: str, request: bytes, file: int) -> bytes:
        """Send a request that must not take longer than a load; see `_ask`."""
        seconds = self._limits.load_seconds
        with trio.move_on_after(seconds):
            return await self._ask(doing, request, file)
        raise WorkerFailure(f"{doing}: the interpreter {_too_long(seconds)}")

    async def _ask(self, doing: str, request: bytes, file: int | None = None) -> bytes:
        """Send a request and return the reply, as `_reply` does."""
        await self._send(request, file)
        return await self._reply(doing)

    async def _send(self, request: bytes, file: int | None = None) -> None:
        """Send a request; a worker that takes none is stopped."""
        worker = self._worker
        assert worker is not None  # noqa: S101 - the caller saw to it
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            worker.post(request, file)
        except OSError:
            await self._stop()
            raise

    async def _reply(self, doing: str) -> bytes:
        """Return the reply to the oldest request; a worker that does not reply as it should is stopped."""
        worker = self._worker
        if worker is None:  # a reply before this one ended it
            raise WorkerFailure(f"{doing}: the interpreter was stopped")
        printed = ""
        try:
            reply = await worker.collect()
            if reply:
                printed = worker.take_output()
        except WorkerLies as lie:
            await self._stop()
            raise WorkerFailure(f"{doing}: {lie}") from None
        except BaseException:
            await self._stop()
            raise
        if not reply:
            ending = await self._stop()
            raise WorkerFailure(
                f"{doing}: the interpreter {self._describe(ending)}{_last_words(ending.printed)}",
                printed=ending.printed,
            )
        if printed:
            self._log(printed)
        if reply.startswith(DONE):
            return reply[1:]
        await self._check_failure(doing, reply)
        reason = printable(reply[2:].decode(errors="replace"))
        raise WorkerFailure(f"{doing}: {reason}", LoadResult(reply[1]), printed)

    async def _check_failure(self, doing: str, reply: bytes) -> None:
        """Stop a worker whose reply is neither DONE nor FAILED with a load result."""
        if not reply.startswith(FAILED) or len(reply) < 2 or reply[1] not in set(LoadResult):
            await self._stop()
            raise WorkerFailure(f"{doing}: the interpreter's process answers {reply[:8].hex(' ')}")

    def _describe(self, ending: Ending) -> str:
        if ending.status == -signal.SIGALRM:
            return _too_long(self._limits.invoke_seconds)
        return str(ending)

    async def _stop(self) -> Ending:
        """Kill the worker if it is still alive, and log its last output."""
        worker, self._worker = self._worker, None
        if worker is None:
            return Ending(0, "")
        ending = await worker.end()
        if ending.printed:
            self._log(ending.printed)
        return ending

    async def _release(self) -> None:
        if self._files is not None:
            # While the worker has them too: whoever has the files last spends the time to free their pages.
            self._files.close()
        self._files = None
        self._forget()
        await self._stop()


def isolated(
    log: LogSink, *, kind: EngineKind | None = None, limits: Limits | None = None
) -> IsolatedInterpreter:
    """Create a runner for `InferenceEngine` that gives each model a process of its own."""
    return IsolatedInterpreter(log, kind, limits)


class WorkerFailure(Exception):
    """A worker that reported an error, died, or ran out of time; the text says which."""

    def __init__(self, text: str, load_result: LoadResult = LoadResult.OTHER, printed: str = "") -> None:
        super().__init__(text)
        self.load_result = load_result
        self.printed = printed


class SharedFiles:
    """The files in memory that a worker gets: the model, and then its tensors."""

    def __init__(self, arena_bytes: int, in_place: InPlaceModel | None) -> None:
        self.arena_bytes: Final = arena_bytes
        self.offset: Final = None if in_place is None else in_place.offset
        self._in_place = in_place
        self._changes = 0
        with ExitStack() as undo:
            self.model: Final = memory_file("model", undo) if in_place is None else in_place.descriptor
            self.tensors: Final = memory_file("tensors", undo)
            self._closing = undo.pop_all()

    async def write_model(self, model: ModelBytes) -> None:
        """Write the model, for good: a restarted worker gets it as it was. Other tasks run between pieces."""
        import fcntl  # where there are such files

        written = 0
        while written < len(model):
            if written:
                await trio.lowlevel.checkpoint()
            written += os.write(self.model, memoryview(model)[written : written + _PIECE_BYTES])
        fcntl.fcntl(self.model, fcntl.F_ADD_SEALS, _fixed_size() | fcntl.F_SEAL_WRITE)

    def map_tensors(self, size: int) -> memoryview:
        """Fix the size of the tensors' memory in bytes, before any worker has it, and return the memory."""
        import fcntl

        size = max(size, 1)  # memory of no bytes cannot be mapped
        os.ftruncate(self.tensors, size)
        # A worker that shrank it would take the parent down at the next access.
        fcntl.fcntl(self.tensors, fcntl.F_ADD_SEALS, _fixed_size())
        return memoryview(mmap.mmap(self.tensors, size))

    def take_change(self) -> bool:
        """Check whether the stored model has changed since the last call."""
        known = self._changes
        self._changes = 0 if self._in_place is None else self._in_place.changes
        return known != self._changes

    def close(self) -> None:
        self._closing.close()


_PIECE_BYTES: Final = 1 << 19


def _fixed_size() -> int:
    import fcntl

    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def _too_long(seconds: float) -> str:
    return f"took more than {seconds:g} s and was stopped"


def _last_words(printed: str, count: int = 2) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"; it printed last: {'; '.join(lines[-count:])}" if lines else ""
