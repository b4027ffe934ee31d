"""Commands that begin with their modules imported: each in a process of its own, which is a fork.

Most of what a short command takes is the import of its modules. One process of this run has imported
them, and forks; the fork has its own environment, folder, files and arguments, and ends as any other process.
"""

import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

MODULES: Final = ("aisrv", "host_tools", "flash_server")
SERVER: Final = Path(__file__).with_name("forking_server.py")
OF_PYTHON: Final = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_", "OPENBLAS", "OMP")
"""How the names of variables begin that count when a process begins."""


class ReadyCommands:
    """The process that forks, which ends with this one."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        """What commands that have ended took."""
        self._environment = _of_python(os.environ)
        self._requests, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with given:
            words = [sys.executable, "-P", str(SERVER), str(given.fileno())]
            self._server = subprocess.Popen(words, pass_fds=[given.fileno()])  # kept: it ends after us

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork is as a new process, which would read these variables when it begins."""
        return _of_python(environment) == self._environment

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None, seconds: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command of Python, as `run_process` does."""
        _, _, _, module, *words = command
        request = {
            "module": module,
            "words": words,
            "folder": str(folder or Path.cwd()),
            "environment": dict(environment),
        }
        pipes = [os.pipe() for _ in range(3)]
        socket.send_fds(self._requests, [json.dumps(request).encode()], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        output, errors, result = _read([read for read, _ in pipes], command, seconds)
        _, code, used = result.split()
        self.cpu_seconds += float(used)
        return subprocess.CompletedProcess(list(command), int(code), _text(output), _text(errors))


@cache
def ready_commands() -> ReadyCommands:
    """Return those of this process."""
    return ReadyCommands()


def is_command(command: Sequence[str]) -> bool:
    """Whether a program is a command of this project in this Python."""
    return (
        sys.platform == "linux"
        and list(command[:3]) == [sys.executable, "-P", "-m"]
        and command[3:4] != []
        and command[3] in MODULES
    )


def cpu_seconds() -> float:
    """Return the CPU seconds of commands that have ended."""
    return ready_commands().cpu_seconds if ready_commands.cache_info().currsize else 0.0


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_PYTHON)}


def _read(files: Sequence[int], command: Sequence[str], seconds: float) -> list[bytes]:
    """Return all that comes from pipes until they end; the last one begins with the number of the process."""
    end = time.monotonic() + seconds
    data = dict.fromkeys(files, b"")
    with ExitStack() as held, selectors.DefaultSelector() as selector:
        for each in files:
            held.callback(os.close, each)
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                _kill(files[-1], data[files[-1]])
                raise subprocess.TimeoutExpired(list(command), seconds)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                data[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    return list(data.values())


def _kill(result: int, begun: bytes) -> None:
    """Kill a process that hangs, and wait until it has ended."""
    number = begun or os.read(result, 100)
    os.kill(int(number.split()[0]), signal.SIGKILL)
    while os.read(result, 100):
        pass


def _text(data: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(data)).read()
