"""An interpreter in a process of its own: one that dies, hangs or eats memory is an error, and no more.

The parent's side of `worker.py`. Tensors are in memory that both processes share, so that only requests
cross the socket. What the worker prints goes to a file in memory, which outlives the worker and needs no
reader while it runs. Source: "Inference engines", section Isolation.
"""

import fcntl
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

import aisrv
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import TensorLayout, interpreter_spec
from aisrv.inference.worker import FAILED, INVOKE, MAP, MESSAGE_LIMIT, OUTPUT_LIMIT, Startup

LogSink = Callable[[str], None]
"""Takes text for a debug log: one line or several."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may take: address space in bytes (idle it has 90 MB), and times in seconds."""

    memory_bytes: int = 1 << 30
    load_seconds: float = 30.0
    """From the start of the process until the model is loaded."""
    invoke_seconds: float = 60.0


class IsolatedInterpreter:
    """One model in a worker process. One call at a time.

    A worker that dies or exceeds a limit, and one whose `load` or `invoke` is cancelled, is gone, killed
    and reaped, when the call ends. After an `invoke` that ended so, the next one starts a new worker with
    the same model and the inputs as they are; what the model kept in variables is lost. An error that the
    interpreter itself reports leaves the worker alive.
    """

    def __init__(self, log: LogSink, kind: str = "tflite", limits: Limits | None = None) -> None:
        """Make one that is not loaded; `log` gets what the worker prints. ValueError for an unknown kind."""
        self._spec = interpreter_spec(kind)
        self._limits = limits or Limits()
        self._log = log
        self._files: _SharedFiles | None = None
        self._worker: _Worker | None = None
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
        """Return the memory of an input; what is written to it is what the next `invoke` runs on."""
        return self._inputs[number][:]

    def output(self, number: int) -> memoryview:
        """Return the memory of an output: zeros until the first `invoke`, then the result of the last."""
        return self._outputs[number][:]

    async def load(self, model: bytes) -> None:
        """Start a worker and load a model into it; ModelError with the reason, and nothing is left."""
        self._release()
        try:
            self._files = _SharedFiles(model)
            layout = await self._start(self._files)
            memory = self._files.map_tensors(self._check_size(layout))
            await self._perform("mapping the tensors", self._limits.load_seconds, MAP)
        except (_WorkerFailure, OSError) as failure:
            self._release()
            raise ModelError(str(failure)) from None
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
            await self._perform("running the model", self._limits.invoke_seconds, INVOKE)
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
        try:
            self._worker = _Worker(self._spec, self._limits.memory_bytes, files)
        except OSError as error:
            raise _WorkerFailure(f"starting the interpreter's process: {error}") from None
        reply = await self._perform("loading the model", self._limits.load_seconds)
        try:
            return TensorLayout.from_bytes(reply)
        except ValueError as error:
            raise _WorkerFailure(f"loading the model: {error}") from None

    async def _restart(self, files: "_SharedFiles") -> None:
        try:
            if await self._start(files) != self._layout:
                raise _WorkerFailure("loading the model again gave tensors of other sizes")
            await self._perform("mapping the tensors", self._limits.load_seconds, MAP)
        except BaseException:
            self._stop()
            raise

    def _check_size(self, layout: TensorLayout) -> int:
        if layout.nbytes > self._limits.memory_bytes:
            raise _WorkerFailure(f"the tensors have {layout.nbytes:,} bytes, more than a worker may take")
        return layout.nbytes

    async def _perform(self, doing: str, seconds: float, request: bytes = b"") -> bytes:
        """Send a request, if there is one, and return the reply; without a reply the worker is stopped."""
        assert self._worker is not None and self._files is not None  # noqa: S101, PT018 - the caller saw to it
        reply = b""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.move_on_after(seconds) as limit:
                reply = await self._worker.exchange(request)
        except BaseException:
            self._stop()
            raise
        finally:
            printed = self._files.take_output()
            if printed:
                self._log(printed)
        if not reply:
            end = self._stop()
            if limit.cancelled_caught:
                end = f"took more than {seconds:g} s and was stopped"
            raise _WorkerFailure(f"{doing}: the interpreter {end}{_last_words(printed)}")
        if reply.startswith(FAILED):
            raise _WorkerFailure(f"{doing}: {reply[1:].decode(errors='replace')}")
        return reply[1:]

    def _stop(self) -> str:
        """Kill the worker if it is still alive, and tell how it ended."""
        worker, self._worker = self._worker, None
        return "" if worker is None else worker.stop()

    def _release(self) -> None:
        self._stop()
        if self._files is not None:
            self._files.close()
        self._files = None
        self._layout = TensorLayout((), ())
        self._inputs, self._outputs = [], []


def isolated(log: LogSink, *, kind: str = "tflite", limits: Limits | None = None) -> IsolatedInterpreter:
    """Make a runner for `InferenceEngine` that gives each model a process of its own."""
    return IsolatedInterpreter(log, kind, limits)


class _WorkerFailure(Exception):
    """A worker that reported an error, died, or ran out of time; the text says which."""


class _SharedFiles:
    """The files in memory that a worker inherits: the model, its tensors, and what the worker prints."""

    def __init__(self, model: bytes) -> None:
        with ExitStack() as undo:
            self.model = _memory_file("model", undo)
            self.tensors = _memory_file("tensors", undo)
            self.output = _memory_file("output", undo)
            with open(self.model, "wb", closefd=False) as file:
                file.write(model)
            # A restarted worker gets the model as it was.
            fcntl.fcntl(self.model, fcntl.F_ADD_SEALS, _FIXED_SIZE | fcntl.F_SEAL_WRITE)
            fcntl.fcntl(self.output, fcntl.F_SETFL, os.O_APPEND)
            self._closing = undo.pop_all()

    def map_tensors(self, size: int) -> memoryview:
        """Give the tensors' memory its size in bytes, for good, and return it."""
        size = max(size, 1)  # memory of no bytes cannot be mapped
        os.ftruncate(self.tensors, size)
        # A worker that shrank it would take the parent down at the next access.
        fcntl.fcntl(self.tensors, fcntl.F_ADD_SEALS, _FIXED_SIZE)
        return memoryview(mmap.mmap(self.tensors, size))

    def take_output(self) -> str:
        """Return what the worker has printed since the last time."""
        size = os.fstat(self.output).st_size
        if not size:
            return ""
        printed = os.pread(self.output, size, 0).decode(errors="replace")
        os.ftruncate(self.output, 0)
        return printed if size < OUTPUT_LIMIT else f"{printed}\n(it printed more, which is lost)"

    def close(self) -> None:
        self._closing.close()


_FIXED_SIZE: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def _memory_file(name: str, undo: ExitStack) -> int:
    descriptor = os.memfd_create(f"aisrv-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    undo.callback(os.close, descriptor)
    return descriptor


_BOOT: Final = (
    "import sys; count = int(sys.argv[1]) + 2; sys.path[:] = sys.argv[count:]; "
    "from aisrv.inference.worker import main; main(sys.argv[2:count])"
)
# No variables of Python's and no `site`, which costs 15 ms; unbuffered, so that last words are not lost.
_FLAGS: Final = ("-I", "-S", "-u", "-c", _BOOT)
# Interpreters run on one thread; the pool that numpy would start takes time and address space.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class _Worker:
    """A worker process and the control socket to it."""

    def __init__(self, spec: str, memory_bytes: int, files: _SharedFiles) -> None:
        with ExitStack() as undo:
            control, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.enter_context(control)
            control.setblocking(False)
            with inherited:
                startup = Startup(
                    inherited.fileno(), files.model, files.tensors, os.getpid(), memory_bytes, spec
                )
                self._process = subprocess.Popen(
                    [sys.executable, *_FLAGS, str(len(startup)), *startup.arguments, *_search_path()],
                    stdin=subprocess.DEVNULL,
                    stdout=files.output,
                    stderr=files.output,
                    pass_fds=(startup.control, startup.model, startup.tensors),
                    env=os.environ | _ONE_THREAD,
                    process_group=0,  # a Ctrl-C on the terminal is not the worker's
                )
            undo.pop_all()
        self._control = control
        self.pid: Final = self._process.pid

    async def exchange(self, request: bytes) -> bytes:
        """Send a request, if it is not empty, and return the reply: empty where the worker is dead."""
        try:
            if request:
                self._control.send(request)
            await trio.lowlevel.wait_readable(self._control)
            return self._control.recv(MESSAGE_LIMIT)
        except ConnectionError:
            return b""

    def stop(self) -> str:
        """Kill the process unless it is already dying, reap it, and tell how it ended."""
        self._control.close()
        self._process.kill()
        status = self._process.wait()
        return f"ended with exit status {status}" if status >= 0 else f"was killed by {_signal(-status)}"


def _search_path() -> list[str]:
    # Without `site` there are no import hooks, which may be how this package is found.
    return [*sys.path, str(Path(aisrv.__file__).parent.parent)]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(printed: str, count: int = 2) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"; it printed last: {'; '.join(lines[-count:])}" if lines else ""
