"""The process that a model runs in: an interpreter that crashes on a bad model ends only this process.

It inherits a control socket that keeps message boundaries, joined to its parent (`worker_process.py`), and a
file in memory as descriptors 1 and 2. It imports its interpreter, which is what takes long, before it waits:

    parent: LOAD, size of the arena, limit of a run, sandbox, file of the model
                             worker: layout of the tensors, or an error
    parent: MAP, file of the tensors, of the right size for good
                             worker: done
    parent: INVOKE           worker: done, or an error  any number of times
    parent: COUNT            worker: lines filled, or an error  an INVOKE of a model that runs in place
    parent: CHANGED          worker: done, or an error  before an INVOKE, where flash has changed

or, in place of the last three, for batches of rows (`batch.py`):

    parent: MAP_INPUTS, where rows are, file            worker: done
    parent: MAP_OUTPUTS, where room for them is, file   worker: done
    parent: BATCH, which rows                           worker: times, or an error

Every request begins with a number, which its reply repeats. The end of the socket ends the worker. A reply is
DONE and then the layout, a count (u64), or nothing; or FAILED, the load result, and the text of the error. A
run that takes too long is ended by an alarm of the process's own, which leaves a clear trace; the parent
trusts nothing that a model may have taken over, and has deadlines of its own. Before it loads the model the
process gives up what it needs no more (`sandbox.py`). Source: "Inference engines", section Isolation.
"""

import ctypes
import math
import mmap
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Self, cast

from aisrv.inference.batch import Batches, BatchJob, RowArea, pack_times
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import (
    Confinement,
    InPlaceInterpreter,
    Interpreter,
    TensorLayout,
    check_kind_of_model,
    confinement_of,
    create_interpreter,
    describe,
    prepare,
    run_counted_in_tensors,
    run_in_tensors,
)
from aisrv.inference.process.sandbox import WRITTEN_BYTES, Sandbox, limit
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind

LOAD: Final = b"l"
MAP: Final = b"m"
INVOKE: Final = b"i"
COUNT: Final = b"f"
CHANGED: Final = b"c"
MAP_INPUTS: Final = b"I"
MAP_OUTPUTS: Final = b"O"
BATCH: Final = b"b"
DONE: Final = b"+"
FAILED: Final = b"-"

MESSAGE_LIMIT: Final = 4096
"""Bytes of the longest message; the text of an error is cut to fit."""
OUTPUT_LIMIT: Final = 1 << 16
"""Bytes of captured output that fit at once; more is lost."""

_PR_SET_PDEATHSIG: Final = 1
NUMBER_BYTES: Final = 8
"""Bytes of the number that each request begins with."""

LINES: Final = struct.Struct("<Q")
"""Reply to a COUNT."""
_LOAD_NUMBERS: Final = struct.Struct("<Qdq")
_NOT_IN_PLACE: Final = -1


class Startup(NamedTuple):
    """Command line of the worker: its control socket, its parent, the kind of interpreter and the limit."""

    control: int
    parent_pid: int
    memory_bytes: int
    interpreter: EngineKind

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        *numbers, interpreter = arguments
        control, parent_pid, memory_bytes = map(int, numbers)
        return cls(control, parent_pid, memory_bytes, EngineKind.parse(interpreter))

    @property
    def arguments(self) -> list[str]:
        return [str(field) for field in self]


class LoadRequest(NamedTuple):
    """Parameters of loading a model."""

    arena_bytes: int
    invoke_seconds: float
    """Seconds after which the kernel kills a worker that runs the model; infinity is no limit."""
    sandbox: Sandbox
    offset: int | None = None
    """Offset in its file of a model that stays there; None for one that is the file, and is read."""

    def __bytes__(self) -> bytes:
        offset = _NOT_IN_PLACE if self.offset is None else self.offset
        return _LOAD_NUMBERS.pack(self.arena_bytes, self.invoke_seconds, offset) + bytes(self.sandbox)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        arena_bytes, invoke_seconds, offset = _LOAD_NUMBERS.unpack_from(data)
        sandbox = Sandbox.from_bytes(data[_LOAD_NUMBERS.size :])
        return cls(arena_bytes, invoke_seconds, sandbox, None if offset == _NOT_IN_PLACE else offset)


class Request(NamedTuple):
    """A received request: its number, its kind and data, and a file or None."""

    number: bytes
    kind: bytes
    body: bytes
    file: int | None

    @classmethod
    def receive(cls, control: socket.socket) -> Self | None:
        """Wait for a request; None if the parent closes its end instead."""
        message, files, _, _ = socket.recv_fds(control, MESSAGE_LIMIT, 1)
        if not message:
            return None
        number, rest = message[:NUMBER_BYTES], message[NUMBER_BYTES:]
        return cls(number, rest[:1], rest[1:], files[0] if files else None)


def main(arguments: Sequence[str]) -> None:
    """Serve one model; `arguments` are those of `Startup`."""
    import resource  # where there are workers

    startup = Startup.parse(arguments)
    _die_with(startup.parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # The parent may have ignored or blocked the alarm, which is inherited.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_AS, startup.memory_bytes)
    serve(socket.socket(fileno=startup.control), startup.interpreter)
    os._exit(0)  # nothing to tidy up, and an interpreter may crash when it is taken down


def _die_with(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent dies, even during a run."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before we could say so
        os._exit(1)


def serve(control: socket.socket, kind: EngineKind) -> None:
    """Load the model that the parent sends, then answer requests until the socket ends."""
    import resource

    interpreter: Interpreter | None = None
    try:
        interpreter = create_interpreter(kind)
        prepare(interpreter)
    except Exception as error:
        reply = failure(error)
    largest = OUTPUT_LIMIT if kind.variant.written_folder is None else WRITTEN_BYTES
    sys.dont_write_bytecode = True  # Python would keep a compiled module that the limit cuts off
    limit(resource.RLIMIT_FSIZE, largest)  # not before: importing may write compiled modules
    request = Request.receive(control)
    if request is None:
        return
    if interpreter is None:
        control.send(request.number + reply)
        return
    assert request.file is not None  # noqa: S101 - it is a LOAD
    session = _Session(interpreter, LoadRequest.from_bytes(request.body), request.file, kind)
    control.send(request.number + answer(session.load))
    while True:
        # An INVOKE, the one that counts, needs no files: `recv` is the quicker call.
        message = control.recv(MESSAGE_LIMIT) if session.is_mapped else None
        if message == b"":
            return
        if message is None:
            request = Request.receive(control)
            if request is None:
                return
            control.send(request.number + answer(partial(session.map, request)))
        elif message[NUMBER_BYTES:].startswith(BATCH):
            job = message[NUMBER_BYTES + 1 :]
            control.send(message[:NUMBER_BYTES] + answer(partial(session.run_batch, job)))
        else:
            handler = session.handlers.get(message[NUMBER_BYTES:], session.invoke)
            control.send(message[:NUMBER_BYTES] + answer(handler))


class _Session:
    """One model in its interpreter, and the memory of its tensors."""

    def __init__(self, interpreter: Interpreter, request: LoadRequest, model: int, kind: EngineKind) -> None:
        self._interpreter = interpreter
        self._kind = kind
        self._request = request
        self._model = model
        self._folder = kind.variant.written_folder
        seconds = request.invoke_seconds
        self._alarm = seconds if math.isfinite(seconds) else 0.0  # 0 sets none
        self._layout = TensorLayout((), ())
        self._inputs: Sequence[memoryview] = ()
        self._outputs: Sequence[memoryview] = ()
        self._batches: Batches | None = None
        self.is_mapped = False
        """Whether the tensors have their memory: only runs are asked for then."""
        self.handlers: Final = {COUNT: self.invoke_counted, CHANGED: self.forget_code}

    def load(self) -> bytes:
        offset = self._request.offset
        size = os.fstat(self._model).st_size
        if offset is None:
            model = os.pread(self._model, size, 0)
            load = partial(self._interpreter.load, model)
        else:
            memory = mmap.mmap(self._model, size, mmap.MAP_SHARED, mmap.PROT_READ)
            model = memory[offset : offset + 4]
            load = partial(cast("InPlaceInterpreter", self._interpreter).load_in_place, memory, offset)
        check_kind_of_model(self._kind, model)
        confinement = confinement_of(self._interpreter)
        if confinement in (Confinement.BEFORE_LOAD, Confinement.EMULATOR):
            self._enter_sandbox(confinement)
        self._layout = load(self._request.arena_bytes)
        if confinement in (Confinement.AFTER_LOAD, Confinement.EMULATOR_AFTER_LOAD):
            self._enter_sandbox(confinement)
        return bytes(self._layout)

    def _enter_sandbox(self, confinement: Confinement) -> None:
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ModelError(f"the folder for tensors: {error}") from error
        sandbox = self._request.sandbox
        if confinement in (Confinement.EMULATOR, Confinement.EMULATOR_AFTER_LOAD):
            sandbox = sandbox.for_emulators()
        sandbox.enter(self._folder)

    def map(self, request: Request) -> bytes:
        """Map the file of a MAP, MAP_INPUTS or MAP_OUTPUTS."""
        assert request.file is not None  # noqa: S101 - all of them have one
        if request.kind == MAP:
            return self.map_tensors(request.file)
        self._batches = self._batches or Batches(self._interpreter, self._layout)
        area = RowArea.from_bytes(request.body)
        if request.kind == MAP_INPUTS:
            self._batches.map_inputs(request.file, area)
        else:
            self._batches.map_outputs(request.file, area)
            self.is_mapped = True
        return b""

    def run_batch(self, job: bytes) -> bytes:
        """Run a batch; the limit of a run is that of all of it."""
        assert self._batches is not None  # noqa: S101 - it was mapped
        signal.setitimer(signal.ITIMER_REAL, self._alarm)
        try:
            return pack_times(self._batches.run(BatchJob.from_bytes(job)))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def map_tensors(self, tensors: int) -> bytes:
        memory = mmap.mmap(tensors, os.fstat(tensors).st_size)
        self._inputs, self._outputs = self._layout.views(memoryview(memory))
        self.is_mapped = True
        return b""

    def forget_code(self) -> bytes:
        cast("InPlaceInterpreter", self._interpreter).forget_code()
        return b""

    def invoke(self) -> bytes:
        signal.setitimer(signal.ITIMER_REAL, self._alarm)
        try:
            run_in_tensors(self._interpreter, self._inputs, self._outputs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return b""

    def invoke_counted(self) -> bytes:
        signal.setitimer(signal.ITIMER_REAL, self._alarm)
        try:
            interpreter = cast("InPlaceInterpreter", self._interpreter)
            lines = run_counted_in_tensors(interpreter, self._inputs, self._outputs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return LINES.pack(lines)


def answer(handler: Callable[[], bytes]) -> bytes:
    """Return the reply to a request: any error of a binding becomes FAILED."""
    try:
        return DONE + handler()
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> bytes:
    result = error.load_result if isinstance(error, ModelError) else LoadResult.OTHER
    text = describe(error).encode(errors="backslashreplace")
    return (FAILED + bytes([result]) + text)[: MESSAGE_LIMIT - NUMBER_BYTES]
