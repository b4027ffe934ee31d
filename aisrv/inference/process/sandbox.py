"""The sandbox of a worker: the rights that the process drops before it loads a model.

The worker's side, which must stay light: it applies what its parent chose (`sandbox_layers.py`), whole or not
at all. Source: "The sandbox of inference workers".
"""

import ctypes
import os
import signal
import struct
from enum import IntFlag
from pathlib import Path
from typing import Final, NamedTuple, Self

NOBODY: Final = 65534
"""User and group of a worker whose parent is root."""
DESCRIPTORS: Final = 64
"""Files that a worker may have open: it needs six."""
WRITTEN_BYTES: Final = 1 << 30
"""Bytes of the largest file of a worker that may write into a folder."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277, "riscv64": 277}
_SECCOMP_SET_FILTER: Final = 1
_SECCOMP_ALL_THREADS: Final = 1
_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_LANDLOCK_PATH_BENEATH: Final = 1
_FILE_RIGHTS: Final = (13, 14, 15, 15, 16, 16, 16)
"""Number of rights on files that the versions of Landlock know, from the first."""
_WRITING: Final = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 14
"""Rights on a folder that a worker may write into: to write, read, list, remove, make and truncate."""
_INSTRUCTION_BYTES: Final = 8
_NUMBERS: Final = struct.Struct("<BBHH")


class SandboxError(Exception):
    """A layer that the kernel refused; the worker loads no model then."""


class Layers(IntFlag):
    """What keeps a worker in."""

    NO_NEW_PRIVILEGES = 1
    LIMITS = 2
    UNPRIVILEGED = 4
    LANDLOCK = 8
    SECCOMP = 16
    PROCESSES = 32


class Sandbox(NamedTuple):
    """What a worker gives up."""

    layers: Layers
    landlock_version: int = 0
    """Version of the kernel's Landlock, 0 for none."""
    program: bytes = b""
    """Seccomp filter, in the kernel's instructions."""
    emulator_program: bytes = b""
    """Filter for emulators, which make code as they run, and stop it from a thread."""

    def __bytes__(self) -> bytes:
        sizes = len(self.program), len(self.emulator_program)
        return (
            _NUMBERS.pack(self.layers, self.landlock_version, *sizes) + self.program + self.emulator_program
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Unpack `data` that `__bytes__` packed; struct.error for less."""
        layers, version, size, emulator_size = _NUMBERS.unpack_from(data)
        emulator = _NUMBERS.size + size
        return cls(
            Layers(layers),
            version,
            data[_NUMBERS.size : emulator],
            data[emulator : emulator + emulator_size],
        )

    def for_emulators(self) -> Self:
        """Return the layers that allow threads, and code that is made while it runs."""
        return self._replace(layers=self.layers & ~Layers.PROCESSES, program=self.emulator_program)

    def enter(self, folder: Path | None = None) -> None:
        """Drop all rights but writing into `folder`, which exists. Raises SandboxError."""
        import resource  # before files are out of reach

        if Layers.NO_NEW_PRIVILEGES in self.layers:
            _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)
        if Layers.LANDLOCK in self.layers:
            _restrict_files(self.landlock_version, folder)
        if Layers.LIMITS in self.layers:
            limit(resource.RLIMIT_NOFILE, DESCRIPTORS)
            limit(resource.RLIMIT_MEMLOCK, 0)
            limit(resource.RLIMIT_MSGQUEUE, 0)
        if Layers.PROCESSES in self.layers:
            limit(resource.RLIMIT_NPROC, 0)
        if Layers.UNPRIVILEGED in self.layers:
            _drop_privileges()
        if Layers.SECCOMP in self.layers:
            _filter(self.program)


class _Filter(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _filter(program: bytes) -> None:
    described = _Filter(len(program) // _INSTRUCTION_BYTES, program)
    number = _SECCOMP[os.uname().machine]
    # With the threads that there are: a backend may have started some before.
    if _system_call(
        "seccomp", number, _SECCOMP_SET_FILTER, _SECCOMP_ALL_THREADS, ctypes.addressof(described)
    ):
        raise SandboxError("seccomp: a thread of the interpreter's has a filter of its own")


def _drop_privileges() -> None:
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        raise SandboxError(f"giving up root's rights: {error.strerror}") from error
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0)  # which a change of the user clears


def file_rights(version: int) -> int:
    """Return all rights on files that a version of Landlock knows, from 1."""
    return (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1


def landlock_attributes(version: int, *, network: bool = False, scopes: bool = True) -> bytes:
    """Return what a ruleset of Landlock denies unless a rule allows it: all that the version knows.

    With `network` TCP ports stay free; without `scopes` signals and abstract sockets do.
    """
    ports = 0b11 if version >= 4 and not network else 0
    scoped = 0b11 if version >= 6 and scopes else 0
    size = 8 if version < 4 else 16 if version < 6 else 24
    return struct.pack("<3Q", file_rights(version), ports, scoped)[:size]


def _restrict_files(version: int, folder: Path | None) -> None:
    """Deny all files, TCP ports, abstract sockets and signals to others, but for writing into `folder`."""
    rights = file_rights(version)
    attributes = landlock_attributes(version)
    rules = _system_call("Landlock", _LANDLOCK_CREATE, attributes, len(attributes), 0)
    try:
        if folder is not None:
            place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            rule = struct.pack("<Qi", _WRITING & rights, place)
            _system_call("Landlock", _LANDLOCK_ADD, rules, _LANDLOCK_PATH_BENEATH, rule, 0)
            os.close(place)
        _system_call("Landlock", _LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def limit(kind: int, value: int) -> None:
    """Lower a limit of this process for good; one that is lower already stays."""
    import resource

    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _prctl(option: int, first: int, second: int) -> None:
    words = map(ctypes.c_ulong, (first, second, 0, 0))
    if _libc.prctl(option, *words):
        raise SandboxError(f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def _system_call(what: str, number: int, *arguments: int | bytes) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise SandboxError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


_libc: Final = ctypes.CDLL(None, use_errno=True)
