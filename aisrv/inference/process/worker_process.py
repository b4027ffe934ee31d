"""The parent's side of a worker process: starting, asking, and stopping one.

Output of the worker goes to a file in memory, which outlives it and needs no reader while it runs.
"""

import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import trio

import aisrv
from aisrv.inference.interpreter import is_shipped
from aisrv.inference.process.worker import MESSAGE_LIMIT, NUMBER_BYTES, OUTPUT_LIMIT, Startup
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.printable import printable_lines

_BOOT: Final = (
    "import sys; count = int(sys.argv[1]) + 2; sys.path[:] = sys.argv[count:]; "
    "from aisrv.inference.process.worker import main; main(sys.argv[2:count])"
)
# No variables of Python's and no `site`, which costs 15 ms; unbuffered, so that last words are not lost.
_FLAGS: Final = ("-I", "-S", "-u", "-c", _BOOT)
# What the user has installed may be found by hooks alone, which `site` sets up, as after `pip install -e`.
_FLAGS_WITH_SITE: Final = ("-E", "-P", "-u", "-c", _BOOT)
# Interpreters run on one thread; the pool that numpy would start takes time and address space.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


END_SECONDS: Final = 10.0
"""Time that the kernel has to end a process that was killed."""


class WorkerKind(NamedTuple):
    """The kind of a process without a model: its interpreter, and its address space in bytes."""

    interpreter: EngineKind
    memory_bytes: int


class Ending(NamedTuple):
    """End of a process, and its output that was not read yet."""

    status: int
    """Exit status; a signal's number is negative."""
    printed: str

    def __str__(self) -> str:
        return (
            f"ended with exit status {self.status}"
            if self.status >= 0
            else f"was killed by {_signal(-self.status)}"
        )


class WorkerLies(Exception):
    """A worker that breaks the protocol; the text says how."""


class WorkerProcess:
    """A worker process, the control socket to it, and its output."""

    def __init__(self, kind: WorkerKind) -> None:
        """Start one, which imports its interpreter at once. Raises OSError."""
        import fcntl

        with ExitStack() as undo:
            control, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.enter_context(control)
            control.setblocking(False)
            self._output = memory_file("output", undo)
            fcntl.fcntl(self._output, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)  # it is emptied time and again
            fcntl.fcntl(self._output, fcntl.F_SETFL, os.O_APPEND)
            with inherited:
                startup = Startup(inherited.fileno(), os.getpid(), kind.memory_bytes, kind.interpreter)
                flags = _FLAGS if is_shipped(kind.interpreter) else _FLAGS_WITH_SITE
                self._process = subprocess.Popen(
                    [sys.executable, *flags, str(len(startup)), *startup.arguments, *_search_path()],
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=self._output,
                    pass_fds=(startup.control,),
                    env=os.environ | _ONE_THREAD,
                    process_group=0,  # a Ctrl-C on the terminal is not the worker's
                )
            self._closing = undo.pop_all()
        self._control = control
        self._number = int.from_bytes(os.urandom(NUMBER_BYTES // 2), "little")
        self._waiting: deque[bytes] = deque()  # numbers of requests without a reply
        self.pid: Final = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def post(self, request: bytes, file: int | None = None) -> None:
        """Send a request with a file; the worker comes to it when it is done with those before."""
        number = self._number.to_bytes(NUMBER_BYTES, "little")
        self._number += 1
        self._waiting.append(number)
        try:
            if file is None:
                self._control.send(number + request)
            else:
                socket.send_fds(self._control, [number + request], [file])
        except ConnectionError:  # of a dead worker
            return  # `collect` finds it

    async def collect(self) -> bytes:
        """Return the reply to the oldest request: empty if the worker is dead. Raises WorkerLies."""
        number = self._waiting.popleft()
        try:
            await trio.lowlevel.wait_readable(self._control)
            reply = self._control.recv(MESSAGE_LIMIT + 1)
        except ConnectionError:
            return b""
        if not reply:
            return b""
        if not reply.startswith(number):
            raise WorkerLies("the interpreter's process answered what it was not asked")
        if not NUMBER_BYTES < len(reply) <= MESSAGE_LIMIT:
            raise WorkerLies(f"the interpreter's process answers with {len(reply)} bytes")
        return reply[NUMBER_BYTES:]

    def take_output(self) -> str:
        """Return the worker's output since the last call. Raises WorkerLies."""
        try:
            size = os.lseek(self._output, 0, os.SEEK_END)
            if not size:
                return ""
            data = os.pread(self._output, OUTPUT_LIMIT, 0)
            os.ftruncate(self._output, 0)
        except (OSError, ValueError) as error:
            raise WorkerLies(f"the interpreter's process lets nobody take its output: {error}") from error
        printed = printable_lines(data.decode(errors="replace"))
        return printed if size < OUTPUT_LIMIT else f"{printed}\n(it printed more, which is lost)"

    async def end(self) -> Ending:
        """Kill the process unless it is already dying, and reap it, even if cancelled.

        The kernel may take its time to give back what the process has; past END_SECONDS it is left to that.
        """
        self._control.close()
        self._process.kill()
        if self._process.poll() is None:
            ended = os.pidfd_open(self.pid)
            try:
                with trio.move_on_after(END_SECONDS, shield=True):
                    await trio.lowlevel.wait_readable(ended)
            finally:
                os.close(ended)
        return self._reap()

    def stop(self) -> Ending:
        """Do as `end` does for a process without a model, which ends at once."""
        self._control.close()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        return self._reap()

    def _reap(self) -> Ending:
        status = self._process.poll()
        with self._closing:
            try:
                printed = self.take_output()
            except WorkerLies as lie:
                printed = str(lie)
        return Ending(-signal.SIGKILL if status is None else status, printed)


WorkerSource = Callable[[WorkerKind], AbstractContextManager[WorkerProcess]]
"""Source of the process for a model; the block of the context is the loading of the model."""


@contextmanager
def new_worker(kind: WorkerKind) -> Iterator[WorkerProcess]:
    yield WorkerProcess(kind)


def memory_file(name: str, undo: ExitStack) -> int:
    """Create a file in memory, which `undo` closes, and return its descriptor.

    The caller adds F_SEAL_SEAL before a worker gets it, so that the worker adds no seal.
    """
    descriptor = os.memfd_create(f"aisrv-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    undo.callback(os.close, descriptor)
    return descriptor


def _search_path() -> list[str]:
    # Without `site` there are no import hooks, which may be how this package is found.
    return [*sys.path, str(Path(aisrv.__file__).parent.parent)]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
