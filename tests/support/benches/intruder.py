"""Interpreters whose model has taken them over: each tries to get out, and prints how far it got.

There is one for each kind of engine, on the kind's own interpreter with a model loaded.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aisrv.inference.interpreter import Confinement, TensorLayout, confinement_of, create_interpreter, prepare
from aisrv.protocol.engine_kind import EngineKind

VICTIM = int(os.environ.get("AISRV_TEST_VICTIM") or os.getppid())
PLACE = Path(os.environ.get("AISRV_TEST_PLACE") or "/tmp")
_libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def call(number: int, *arguments: Any) -> None:
    checked(_libc.syscall(number, *arguments))


def read_memory(pid: int) -> None:
    here = ctypes.create_string_buffer(8)
    there = Path(f"/proc/{pid}/maps")
    address = ctypes.addressof(here)  # any: it is the right that counts
    one = struct.pack("<QQ", ctypes.addressof(here), 8)
    other = struct.pack("<QQ", address, 8)
    result = _libc.process_vm_readv(pid, one, 1, other, 1, 0)
    error = ctypes.get_errno()
    if result >= 0 or error == 14:  # EFAULT is of one that was let in
        return
    raise OSError(error, f"{os.strerror(error)} {there}")


def try_to_mount() -> None:
    """Mount on a folder that does not exist: nothing is mounted even where that is not refused."""
    if _libc.mount(b"none", b"/aisrv-no-such-folder", b"tmpfs", 0, None) < 0:
        error = ctypes.get_errno()
        if error != errno.ENOENT:
            raise OSError(error, os.strerror(error))


def resize_all() -> None:
    for descriptor in range(3, 20):
        os.ftruncate(descriptor, 1)


def seal_all() -> None:
    """Add any seal to any file: some keep the parent from writing it, or from emptying it."""
    kept: Exception | None = None
    for descriptor in range(64):
        for seal in (fcntl.F_SEAL_SEAL, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW, fcntl.F_SEAL_WRITE, 0x10):
            try:
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seal)
            except OSError as error:
                kept = error
            else:
                return
    assert kept is not None
    raise kept


def send_datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", 9))


def connect(family: int, address: Any) -> None:
    with socket.socket(family) as sock:
        sock.settimeout(1)
        with suppress(ConnectionRefusedError):  # the network was reached
            sock.connect(address)


def start_thread() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


ATTEMPTS: Mapping[str, Callable[[], object]] = {
    "read a file": lambda: Path("/etc/passwd").read_bytes(),
    "write a file": lambda: (PLACE / "intruder").write_bytes(b"x"),
    "list a folder": lambda: list(Path("/").iterdir()),
    "connect by TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", 9)),
    "send by UDP": send_datagram,
    "make a local socket": lambda: socket.socketpair(),
    "fork": lambda: os.fork() or os._exit(0),
    "start a program": lambda: subprocess.run(["/bin/true"], check=True),
    "become a program": lambda: os.execv("/bin/true", ["true"]),
    "start a thread": start_thread,
    "signal the device": lambda: os.kill(VICTIM, signal.SIGCONT),
    "read the device's memory": lambda: read_memory(VICTIM),
    "open the device's memory": lambda: os.open(f"/proc/{VICTIM}/mem", os.O_RDWR),
    "trace the device": lambda: call(101, 0x4206, VICTIM, 0, 0),
    "map code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
    "raise a limit": lambda: resource.prlimit(0, resource.RLIMIT_NOFILE, (1024, 1024)),
    "make a file in memory": lambda: os.memfd_create("x"),
    "resize the tensors": resize_all,
    "seal a file": seal_all,
    "leave the session": os.setsid,
    "mount": try_to_mount,
}
MAY_WHERE_LANDLOCK_IS_ALL = (
    "send by UDP",
    "make a local socket",
    "start a thread",
    "map code",
    "raise a limit",
)
"""What Landlock and limits alone do not keep a worker from."""


class Intruder:
    """Loads the model as its kind does; the first run tries everything."""

    KIND = "tflite"
    OPTIONS: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self._real = create_interpreter(EngineKind(self.KIND, **self.OPTIONS))

    @property
    def confinement(self) -> Confinement:
        return confinement_of(self._real)

    def prepare(self) -> None:
        prepare(self._real)

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        return self._real.load(model, arena_bytes)

    def set_input(self, number: int, data: memoryview) -> None:
        self._real.set_input(number, data)

    def invoke(self) -> None:
        if not hasattr(self, "tried"):
            self.tried = True
            for name, attempt in ATTEMPTS.items():
                if name in os.environ.get("AISRV_TEST_SPARE", "").split(","):
                    continue
                try:
                    attempt()
                except Exception as error:
                    number = getattr(error, "errno", None)
                    print(f"refused {name}: {type(error).__name__} {number}")
                else:
                    print(f"could {name}")
            sys.stdout.flush()
        self._real.invoke()

    def get_input(self, number: int, into: memoryview) -> None:
        self._real.get_input(number, into)

    def get_output(self, number: int, into: memoryview) -> None:
        self._real.get_output(number, into)


class Litert(Intruder):
    KIND = "litert"


class Tflm(Intruder):
    KIND = "tflm"


class Xcore(Intruder):
    KIND = "xcore"


class Kernels(Intruder):
    KIND = "kernels"


class Relocatable(Intruder):
    KIND = "relocatable"


class Foreign(Intruder):
    """A backend of kernels that is not ours, as far as the engine knows."""

    KIND = "kernels"
    OPTIONS: Mapping[str, Any] = {"backend": "relocatable"}


class Native(Intruder):
    """Native kernels, on a thread more than one."""

    KIND = "kernels"
    OPTIONS: Mapping[str, Any] = {"backend": "native+threads=2"}


class Compiling(Intruder):
    """One that wants files and programs while it loads a model, and nothing later."""

    @property
    def confinement(self) -> Confinement:
        return Confinement.AFTER_LOAD

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        subprocess.run([sys.executable, "-c", ""], check=True)
        return super().load(model, arena_bytes)
