"""An interpreter that speaks to the parent behind its worker's back, as native code that took over could."""

import fcntl
import mmap
import os
import signal
import socket
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from aisrv.inference.interpreter import Confinement, TensorLayout
from aisrv.protocol.engine_kind import EngineKind

KIND = EngineKind("tests.support.benches.liar:Liar")
NAME_BYTES = 32
LAYOUT = TensorLayout((NAME_BYTES,), (1,))


def control() -> socket.socket:
    """The worker's end of the socket to its parent."""
    for descriptor in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return socket.socket(fileno=os.dup(descriptor))
    raise RuntimeError("no socket")


def say(*messages: bytes) -> None:
    with control() as sock:
        for message in messages:
            sock.send(message)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def disarm_and_hang() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        signal.pause()


def change_files() -> None:
    """Print the files that take a seal more, a byte, or another size."""
    for descriptor in range(64):
        name = _name(descriptor)
        changes: Mapping[str, Callable[[int], object]] = {
            "sealed": lambda file: fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL),
            "wrote": lambda file: os.pwrite(file, b"x", 0),
            "resized": lambda file: os.ftruncate(file, 1),
        }
        for what, change in changes.items():
            if descriptor <= 2 and what != "sealed":
                continue  # where it prints
            with suppress(OSError):
                change(descriptor)
                print(what, name)


def _name(descriptor: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/self/fd/{descriptor}").readlink().name
    return ""


def grow() -> None:
    for descriptor in range(3, 64):
        with suppress(OSError):
            os.ftruncate(descriptor, 1)


LIES: Mapping[str, Callable[[], object]] = {
    "": lambda: None,
    "stop": stop,
    "hang": disarm_and_hang,
    "stale": lambda: say(bytes(8) + b"+"),
    "short": lambda: say(b"+"),
    "long": lambda: say(b"x" * 5000),
    "empty": lambda: say(b""),
    "flood": lambda: say(*100 * [b"x" * 9]),
    "half closed": lambda: control().shutdown(socket.SHUT_WR),
    "resize": grow,
    "files": change_files,
}


class Liar:
    """Lies as the model says when it is loaded, and as input 0 says when it runs."""

    confinement = Confinement.NONE

    def __init__(self) -> None:
        self._lie = ""

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        name = model.decode()
        if name == "huge layout":
            return TensorLayout((1 << 62,), (1 << 62,))
        if name == "many":
            return TensorLayout((1,) * 4000, ())
        LIES[name]()
        return LAYOUT

    def load_in_place(self, memory: mmap.mmap, offset: int, arena_bytes: int, /) -> TensorLayout:
        return LAYOUT

    def set_input(self, number: int, data: memoryview) -> None:
        self._lie = bytes(data).rstrip(b"\0").decode()

    def invoke(self) -> None:
        LIES[self._lie]()

    def invoke_counted(self) -> int:
        LIES[self._lie]()
        return 42

    def get_input(self, number: int, into: memoryview) -> None:
        pass

    def get_output(self, number: int, into: memoryview) -> None:
        into[:] = b"\x2a"
