"""The process that a model runs in: some interpreters die of a bad model, and take only this process along.

Inherited descriptors join it to its parent (`isolation.py`): a control socket that keeps message
boundaries, the model file, the tensors' memory, and the captured output on descriptors 1 and 2.

    worker: layout of the tensors, or an error      the model is loaded
    parent: MAP        worker: done                 the parent has sized the tensors' memory
    parent: INVOKE     worker: done, or an error    any number of times; the end of the socket ends the worker

A reply is DONE or FAILED and then the layout, nothing, or the text of the error. Source: "Inference
engines", section Isolation.
"""

import ctypes
import mmap
import os
import resource
import signal
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from aisrv.inference.interpreter import Interpreter, TensorLayout, create_interpreter, describe, run_once

MAP: Final = b"m"
INVOKE: Final = b"i"
DONE: Final = b"+"
FAILED: Final = b"-"

MESSAGE_LIMIT: Final = 4096
"""Bytes of the longest message; the text of an error is cut to fit."""
OUTPUT_LIMIT: Final = 1 << 16
"""Bytes of captured output that fit at once; what comes on top is lost."""

_PR_SET_PDEATHSIG: Final = 1


class Startup(NamedTuple):
    """The worker's command line: descriptors, who started it, and what to run within which limit."""

    control: int
    model: int
    tensors: int
    parent_pid: int
    memory_bytes: int
    interpreter: str

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Read what `arguments` gives."""
        *numbers, interpreter = arguments
        control, model, tensors, parent_pid, memory_bytes = map(int, numbers)
        return cls(control, model, tensors, parent_pid, memory_bytes, interpreter)

    @property
    def arguments(self) -> list[str]:
        """The fields as words of a command line."""
        return [str(field) for field in self]


def main(arguments: Sequence[str]) -> None:
    """Serve one model; `arguments` are those of `Startup`."""
    startup = Startup.parse(arguments)
    _die_with(startup.parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, startup.memory_bytes)
    serve(startup)


def _die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies, even in the middle of a run."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before we could say so
        os._exit(1)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def serve(startup: Startup) -> None:
    """Load the model, then answer requests until the socket ends."""
    try:
        session = _Session(create_interpreter(startup.interpreter), startup)
    except Exception as error:
        os.write(startup.control, failure(error))
        return
    _limit(resource.RLIMIT_FSIZE, OUTPUT_LIMIT)  # not before: importing may write compiled modules
    os.write(startup.control, answer(session.load))
    handlers = {MAP: session.map_tensors, INVOKE: session.invoke}
    while request := os.read(startup.control, MESSAGE_LIMIT):
        os.write(startup.control, answer(handlers[request]))
    os._exit(0)  # nothing to tidy up, and an interpreter may crash when it is taken down


class _Session:
    """One model in its interpreter, and the memory of its tensors."""

    def __init__(self, interpreter: Interpreter, startup: Startup) -> None:
        self._interpreter = interpreter
        self._startup = startup
        self._layout = TensorLayout((), ())
        self._inputs: Sequence[memoryview] = ()
        self._outputs: Sequence[memoryview] = ()

    def load(self) -> bytes:
        model = self._startup.model
        self._layout = self._interpreter.load(os.pread(model, os.fstat(model).st_size, 0))
        return bytes(self._layout)

    def map_tensors(self) -> bytes:
        memory = mmap.mmap(self._startup.tensors, os.fstat(self._startup.tensors).st_size)
        self._inputs, self._outputs = self._layout.views(memoryview(memory))
        return b""

    def invoke(self) -> bytes:
        run_once(self._interpreter, self._inputs, self._outputs)
        return b""


def answer(handler: Callable[[], bytes]) -> bytes:
    """Give the reply to a request: whatever a binding raises becomes a FAILED."""
    try:
        return DONE + handler()
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> bytes:
    """Give the reply that says what was raised."""
    return (FAILED + describe(error).encode(errors="backslashreplace"))[:MESSAGE_LIMIT]
