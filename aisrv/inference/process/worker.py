"""The process that a model runs in: an interpreter that crashes on a bad model ends only this process.

It inherits a control socket that keeps message boundaries, joined to its parent (`worker_process.py`), and a
file in memory as descriptors 1 and 2. It imports its interpreter, which is what takes long, before it waits:

    parent: LOAD, size of the arena, limit of a run, files of the model and of its tensors
                             worker: layout of the tensors, or an error
    parent: MAP              worker: done               the parent has sized the tensors' file
    parent: INVOKE           worker: done, or an error  any number of times

The end of the socket ends the worker. A reply is DONE and then the layout, or nothing; or FAILED, the load
result, and the text of the error. A run that takes too long is ended by an alarm of the process's own, which
costs less than a timer of the parent's. Source: "Inference engines", section Isolation.
"""

import ctypes
import math
import mmap
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import (
    Interpreter,
    TensorLayout,
    check_kind_of_model,
    create_interpreter,
    describe,
    run_once,
)
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind

LOAD: Final = b"l"
MAP: Final = b"m"
INVOKE: Final = b"i"
DONE: Final = b"+"
FAILED: Final = b"-"

MESSAGE_LIMIT: Final = 4096
"""Bytes of the longest message; the text of an error is cut to fit."""
OUTPUT_LIMIT: Final = 1 << 16
"""Bytes of captured output that fit at once; what comes on top is lost."""

_PR_SET_PDEATHSIG: Final = 1
_LOAD_NUMBERS: Final = struct.Struct("<Qd")
_LOAD_FILES: Final = 2


class Startup(NamedTuple):
    """The worker's command line: its control socket, who started it, and what to run within which limit."""

    control: int
    parent_pid: int
    memory_bytes: int
    interpreter: EngineKind

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Read what `arguments` gives."""
        *numbers, interpreter = arguments
        control, parent_pid, memory_bytes = map(int, numbers)
        return cls(control, parent_pid, memory_bytes, EngineKind.parse(interpreter))

    @property
    def arguments(self) -> list[str]:
        """The fields as words of a command line."""
        return [str(field) for field in self]


class LoadRequest(NamedTuple):
    """What a worker needs to load a model: sizes, limits, and descriptors of two files in memory."""

    arena_bytes: int
    invoke_seconds: float
    """Seconds after which the kernel kills a worker that runs the model; infinity is no limit."""
    model: int
    tensors: int

    def send(self, control: socket.socket) -> None:
        """Send the request with its files; OSError where the worker is gone."""
        numbers = _LOAD_NUMBERS.pack(self.arena_bytes, self.invoke_seconds)
        socket.send_fds(control, [LOAD + numbers], [self.model, self.tensors])

    @classmethod
    def receive(cls, control: socket.socket) -> Self | None:
        """Wait for the request; None where the parent closes its end instead."""
        message, files, _, _ = socket.recv_fds(control, MESSAGE_LIMIT, _LOAD_FILES)
        if not message:
            return None
        arena_bytes, invoke_seconds = _LOAD_NUMBERS.unpack(message[len(LOAD) :])
        return cls(arena_bytes, invoke_seconds, *files)


def main(arguments: Sequence[str]) -> None:
    """Serve one model; `arguments` are those of `Startup`."""
    startup = Startup.parse(arguments)
    _die_with(startup.parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # The parent may have ignored or blocked the alarm, which is inherited.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, startup.memory_bytes)
    serve(socket.socket(fileno=startup.control), startup.interpreter)
    os._exit(0)  # nothing to tidy up, and an interpreter may crash when it is taken down


def _die_with(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent dies, even during a run."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before we could say so
        os._exit(1)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def serve(control: socket.socket, kind: EngineKind) -> None:
    """Load the model that the parent sends, then answer requests until the socket ends."""
    interpreter: Interpreter | None = None
    try:
        interpreter = create_interpreter(kind)
    except Exception as error:
        reply = failure(error)
    _limit(resource.RLIMIT_FSIZE, OUTPUT_LIMIT)  # not before: importing may write compiled modules
    request = LoadRequest.receive(control)
    if request is None:
        return
    if interpreter is None:
        control.send(reply)
        return
    session = _Session(interpreter, kind, request)
    control.send(answer(session.load))
    handlers = {MAP: session.map_tensors, INVOKE: session.invoke}
    while message := control.recv(MESSAGE_LIMIT):
        control.send(answer(handlers[message]))


class _Session:
    """One model in its interpreter, and the memory of its tensors."""

    def __init__(self, interpreter: Interpreter, kind: EngineKind, request: LoadRequest) -> None:
        self._interpreter = interpreter
        self._kind = kind
        self._request = request
        seconds = request.invoke_seconds
        self._alarm = seconds if math.isfinite(seconds) else 0.0  # 0 sets none
        self._layout = TensorLayout((), ())
        self._inputs: Sequence[memoryview] = ()
        self._outputs: Sequence[memoryview] = ()

    def load(self) -> bytes:
        model = self._request.model
        data = os.pread(model, os.fstat(model).st_size, 0)
        check_kind_of_model(self._kind, data)
        self._layout = self._interpreter.load(data, self._request.arena_bytes)
        return bytes(self._layout)

    def map_tensors(self) -> bytes:
        memory = mmap.mmap(self._request.tensors, os.fstat(self._request.tensors).st_size)
        self._inputs, self._outputs = self._layout.views(memoryview(memory))
        return b""

    def invoke(self) -> bytes:
        signal.setitimer(signal.ITIMER_REAL, self._alarm)
        try:
            run_once(self._interpreter, self._inputs, self._outputs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return b""


def answer(handler: Callable[[], bytes]) -> bytes:
    """Return the reply to a request: whatever a binding raises becomes FAILED."""
    try:
        return DONE + handler()
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> bytes:
    """Return the FAILED reply for an exception."""
    result = error.load_result if isinstance(error, ModelError) else LoadResult.OTHER
    text = describe(error).encode(errors="backslashreplace")
    return (FAILED + bytes([result]) + text)[:MESSAGE_LIMIT]
