"""A process in layers of the sandbox alone: it tries what each is for, and tells how far it got.

    python -m tests.support.benches.confined LAYERS FOLDER ATTEMPT...

LAYERS is a `Sandbox` in hexadecimal digits, FOLDER one that it may write into, or nothing. It prints a JSON
object: for each attempt whether it "could" or was "refused".
"""

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from aisrv.inference.process.sandbox import DESCRIPTORS, NOBODY, Sandbox
from tests.support.benches.intruder import ATTEMPTS, VICTIM
from tests.support.paths import ROOT

PR_SET_PDEATHSIG = 1
PR_GET_PDEATHSIG = 2
PR_GET_NO_NEW_PRIVS = 39
_libc = ctypes.CDLL(None, use_errno=True)


def abstract_name(victim: int) -> str:
    """The address of the socket that `outcomes` listens on."""
    return f"\0aisrv-victim-{victim}"


def outlive_its_parent() -> None:
    told = ctypes.c_int()
    _libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(told))
    if told.value == signal.SIGKILL:
        raise PermissionError("it dies with its parent")


def gain_rights_of_programs() -> None:
    if _libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
        raise PermissionError("no program gives it more rights")


def keep_groups() -> None:
    if not os.getgroups():
        raise PermissionError("it has none")


def keep_root() -> None:
    ids = {*os.getresuid(), *os.getresgid()}
    if 0 not in ids:
        raise PermissionError(f"it has {ids}")


def open_many_files() -> None:
    with ExitStack() as files:
        for _ in range(DESCRIPTORS):
            files.callback(os.close, os.dup(0))


def reach_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(abstract_name(VICTIM))


def fork_as_nobody() -> None:
    """Root forks as it likes, whatever its limit is."""
    if os.geteuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def limited(kind: int) -> Callable[[], None]:
    def take() -> None:
        if resource.getrlimit(kind) == (0, 0):
            raise PermissionError("nothing of it")

    return take


OWN_ATTEMPTS: Mapping[str, Callable[[], object]] = {
    **ATTEMPTS,
    "signal itself": lambda: os.kill(os.getpid(), 0),
    "signal a thread": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGURG),
    "change a descriptor": lambda: fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL)),
    "duplicate a descriptor": lambda: os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 0)),
    "reach an abstract socket": reach_abstract_socket,
    "open many files": open_many_files,
    "lock memory": limited(resource.RLIMIT_MEMLOCK),
    "fill message queues": limited(resource.RLIMIT_MSGQUEUE),
    "gain rights of programs": gain_rights_of_programs,
    "keep groups": keep_groups,
    "keep root": keep_root,
    "outlive its parent": outlive_its_parent,
    "fork as nobody": fork_as_nobody,  # the last one: it changes the user
}


def outcomes(
    sandbox: Sandbox, names: Iterable[str], place: Path, folder: Path | None = None
) -> dict[str, str]:
    """What becomes of attempts in a process of its own; root's starts with another group.

    Whom it attacks is a process of another session, so that it may not even have it continue.
    """
    victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(abstract_name(victim.pid))
            listener.listen()
            done = subprocess.run(
                [sys.executable, "-m", __name__, bytes(sandbox).hex(), str(folder or ""), *names],
                env=os.environ | {"AISRV_TEST_VICTIM": str(victim.pid), "AISRV_TEST_PLACE": str(place)},
                cwd=ROOT,
                extra_groups=[NOBODY] if os.geteuid() == 0 else None,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    finally:
        victim.kill()
        victim.wait()
    assert (done.returncode, done.stderr) == (0, ""), done
    told: dict[str, str] = json.loads(done.stdout)
    return told


def main() -> None:
    sandbox, folder = Sandbox.from_bytes(bytes.fromhex(sys.argv[1])), sys.argv[2]
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # as a worker, which does so before
    sandbox.enter(Path(folder) if folder else None)
    told = {}
    for name in sys.argv[3:]:
        try:
            OWN_ATTEMPTS[name]()
        except Exception:
            told[name] = "refused"
        else:
            told[name] = "could"
    print(json.dumps(told), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
