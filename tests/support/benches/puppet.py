"""An interpreter that does what its model says: for tests of the process around it.

The model file names what `load` does, input 0 what `invoke` does, and the first output counts the runs.
It imports nothing slow.
"""

import ctypes
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import Confinement, MissingPackageError, TensorLayout
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind

KIND = EngineKind("tests.support.benches.puppet:Puppet")
NAME_BYTES = 16
LAYOUT = TensorLayout((NAME_BYTES,), (1,))
FLOOD = 1 << 20
TFLM_LINES = b"Failed to resize buffer. Requested: 1192, available 32, missing: 1160\nand so on\n"


def _raise(error: Exception) -> None:
    raise error


def _print_and_raise(lines: bytes, error: Exception) -> None:
    os.write(2, lines)
    raise error


def _hog() -> None:
    mmap.mmap(-1, 1 << 30)


_nothing: list[int] = []

ACTIONS: Mapping[str, Callable[[], object]] = {
    "": lambda: None,
    "overwrite": lambda: None,
    "last": lambda: None,
    "tflm": lambda: _print_and_raise(TFLM_LINES, RuntimeError("no")),
    "refuse": lambda: _raise(ModelError("too many", LoadResult.TOO_MANY_INPUTS)),
    "import": lambda: import_module("late_module"),
    "missing": lambda: _raise(MissingPackageError("such-a-package", "tflm")),
    "hang": signal.pause,
    "exit 3": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "sigterm": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "signal 40": lambda: os.kill(os.getpid(), 40),
    "last words": lambda: (print("one"), print("two", file=sys.stderr), print("three"), os.abort()),
    "print": lambda: print("hello\nworld"),
    "printf": lambda: ctypes.CDLL(None).printf(b"from C\n"),
    "flood": lambda: os.write(1, b"x" * FLOOD),
    "hog": _hog,
    "unicode": lambda: b"\xff".decode(),
    "struct": lambda: struct.unpack("<I", b""),
    "index": lambda: _nothing[0],
    "type": lambda: len(1),  # type: ignore[arg-type]
    "empty": lambda: _raise(RuntimeError()),
    "long": lambda: _raise(RuntimeError("long " * 10_000)),
    "surrogate": lambda: _raise(RuntimeError("\ud800")),
    "core limit": lambda: _raise(RuntimeError(_limit("Max core file size"))),
}


def _limit(name: str) -> str:
    limits = Path("/proc/self/limits").read_text().splitlines()
    return next(" ".join(line.split()) for line in limits if line.startswith(name))


class Puppet:
    """The interpreter; its actions need more than a sandbox leaves."""

    confinement = Confinement.NONE

    def __init__(self) -> None:
        self._action = ""
        self._runs = 0

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        """Do what the model says."""
        name = model.decode()
        if name == "arena":
            raise RuntimeError(f"{arena_bytes} bytes of arena")
        if name.startswith("layout"):
            sizes = tuple(map(int, name.split()[1:]))
            return TensorLayout(sizes[:1], sizes[1:])
        if name.startswith("changing "):
            flag = Path(name.removeprefix("changing "))
            was_there = flag.exists()
            flag.unlink(missing_ok=True)
            return LAYOUT if was_there else TensorLayout((NAME_BYTES,), (2,))
        if name.startswith("once "):
            Path(name.removeprefix("once ")).unlink()
        else:
            ACTIONS[name]()
        return LAYOUT

    def set_input(self, number: int, data: memoryview) -> None:
        """Take the name of the action."""
        self._action = bytes(data).rstrip(b"\0").decode()

    def invoke(self) -> None:
        """Do what input 0 says."""
        ACTIONS[self._action]()
        self._runs += 1

    def get_input(self, number: int, into: memoryview) -> None:
        """Leave something else in the input, where that is the action."""
        if self._action == "overwrite":
            into[:] = b"something else".ljust(len(into), b"\0")

    def get_output(self, number: int, into: memoryview) -> None:
        """Give the number of runs."""
        into[:] = bytes([self._runs]).ljust(len(into), b"\0")[: len(into)]
