"""A process that has imported what commands need, and forks one for each command that it is asked for.

`ready_commands.py` starts it with a socket of packets, each of them a request with four files: the three
standard ones, and that for the process's number, its exit code and its CPU seconds.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

OTHERS = ("host_tools.cli", "flash_server.cli")
LATER = ("numpy", "rich.table", "aisrv.model.reader", "aisrv.addons.kernels.network")
"""What many commands import when they run, and takes most of their time."""
MOST_BYTES = 1 << 20


def import_commands() -> None:
    """Import all commands; the group of `aisrv` loads each when it is used."""
    modules = [place.partition(":")[0] for place, _ in import_module("aisrv.cli.main").COMMANDS.values()]
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # forks have no other threads; their environment is their own
    for module in (*modules, *OTHERS, *LATER):
        with suppress(ImportError):  # the command itself says what is missing
            import_module(module)
    gc.collect()
    gc.freeze()


def next_command(requests: socket.socket) -> dict[str, Any] | None:
    """Return what this process is to run; it returns in each fork, and None in the server at the end."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not message:
            return None
        if os.fork() == 0:
            return _in_fork(json.loads(message), *files)
        for each in files:
            os.close(each)
        with suppress(ChildProcessError):  # all have ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _in_fork(request: dict[str, Any], stdin: int, output: int, errors: int, result: int) -> dict[str, Any]:
    """Fork the command's process, tell its number and how it ends; return in the command's process."""
    process = os.fork()
    if process:
        for each in (stdin, output, errors):
            os.close(each)
        os.write(result, f"{process}\n".encode())
        # Its number stays its own, for those who send signals, until they are told its exit code.
        end = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        assert end is not None
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        os.write(result, f"{code} ".encode())
        _, _, used = os.wait4(process, 0)
        os.write(result, f"{used.ru_utime + used.ru_stime}\n".encode())
        os._exit(0)
    os.close(result)
    for number, file in enumerate((stdin, output, errors)):
        os.dup2(file, number)
        os.close(file)
    # A new stream, as that of the server remembers whether its own file can be sought in.
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    return request


@contextmanager
def quick_end() -> Iterator[None]:
    """End a fork at a SystemExit without what takes longest: Python would free all that it has imported.

    What else belongs to an end is done, and any other exception goes on.
    """
    try:
        yield
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            raise end from None  # nobody reads it, or it is closed: for this Python has words and a code
        os._exit(code & 0xFF)


def main() -> None:
    """Serve until the socket ends; in a fork, be the command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_commands()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = next_command(requests)
    if request is None:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["finds_folder"]:
        sys.path.insert(0, request["folder"])
    sys.argv[1:] = request["words"]
    with quick_end():
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
