"""Commands that begin with their modules imported: each in a process of its own, which is a fork.

Most of what a short command takes is the import of its modules. One process of this run has imported
them, and forks; the fork has its own environment, folder, files and arguments, and ends as any other process.
"""

import atexit
import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Self

MODULES: Final = ("aisrv", "host_tools", "flash_server")
SERVER: Final = Path(__file__).with_name("forking_server.py")
OF_PYTHON: Final = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_", "OPENBLAS", "OMP")
"""How the names of variables begin that count when a process begins."""


class ReadyCommands:
    """The process that forks, which ends with this one or when it is told."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        """What commands that have ended took."""
        self._environment = _of_python(os.environ)
        self._requests, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with given:
            words = [sys.executable, "-P", str(SERVER), str(given.fileno())]
            self._server = subprocess.Popen(words, pass_fds=[given.fileno()])

    def close(self) -> None:
        """End the process; commands that have begun go on."""
        with self._requests:
            self._requests.shutdown(socket.SHUT_RDWR)  # as a fork of a test may hold it too
        self._server.wait()

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork is as a new process, which would read these variables when it begins."""
        return _of_python(environment) == self._environment

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
        *,
        writes: bool = False,
    ) -> "ForkedCommand":
        """Start a command of Python; `writes` gives it a pipe to read from."""
        module, *words = command[command.index("-m") + 1 :]
        request = {
            "module": module,
            "finds_folder": command[1] != "-P",
            "words": words,
            "folder": str(folder or Path.cwd()),
            "environment": dict(environment),
        }
        pipes = [os.pipe() for _ in range(3)]
        stdin, writable = os.pipe() if writes else (os.open(os.devnull, os.O_RDONLY), None)
        given = [stdin, *(write for _, write in pipes)]
        socket.send_fds(self._requests, [json.dumps(request).encode()], given)
        for each in given:
            os.close(each)
        stdout, stderr, result = (read for read, _ in pipes)
        return ForkedCommand(command, writable, stdout, stderr, result, self._count)

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None, seconds: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command of Python, as `run_process` does."""
        with self.start(command, environment, folder) as process:
            try:
                output, errors = process.communicate(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return subprocess.CompletedProcess(list(command), process.wait(), output, errors)

    def _count(self, cpu_seconds: float) -> None:
        self.cpu_seconds += cpu_seconds


class ForkedCommand:
    """A command that has begun, with what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        stdin: int | None,
        stdout: int,
        stderr: int,
        result: int,
        ended: Callable[[float], None],
    ) -> None:
        """The result brings the number of the process, and at its end the exit code and CPU seconds."""
        self.args = list(command)
        self.stdin = None if stdin is None else os.fdopen(stdin, "w")
        self.stdout = os.fdopen(stdout)
        self.stderr = os.fdopen(stderr)
        self.returncode: int | None = None
        self._result = os.fdopen(result)
        self._ended = ended
        self._texts: tuple[str, str] | None = None
        self.pid = int(self._result.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.stdin, self.stdout, self.stderr):
            if each is not None:
                each.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None and select.select([self._result], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._result], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            with self._result:
                code, used = self._result.readline().split()
            self.returncode = int(code)
            self._ended(float(used))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait until it ends; return what is left of its output and its errors."""
        end = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None:
            self.stdin.close()
        if self._texts is None:
            output, errors = self._read(end)
            self._texts = _text(output), _text(errors)
            self.stdout.close()
            self.stderr.close()
        self.wait(_left(end))
        return self._texts

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self, end: float | None) -> tuple[bytes, bytes]:
        """Read what a process writes until all who could have closed it."""
        files = (self.stdout.fileno(), self.stderr.fileno())
        data = dict.fromkeys(files, b"")
        with selectors.DefaultSelector() as selector:
            for each in files:
                selector.register(each, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(_left(end))
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, 0.0)
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    data[key.fd] += piece
                    if not piece:
                        selector.unregister(key.fd)
        return data[files[0]], data[files[1]]


@cache
def ready_commands() -> ReadyCommands:
    """Return those of this process."""
    commands = ReadyCommands()
    atexit.register(commands.close)
    return commands


def is_command(command: Sequence[str]) -> bool:
    """Whether a program is a command of this project in this Python."""
    return sys.platform == "linux" and any(
        list(command[: len(words)]) == words
        for module in MODULES
        for words in ([sys.executable, "-P", "-m", module], [sys.executable, "-m", module])
    )


def cpu_seconds() -> float:
    """Return the CPU seconds of commands that have ended."""
    return ready_commands().cpu_seconds if ready_commands.cache_info().currsize else 0.0


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_PYTHON)}


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def _text(data: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(data)).read()
