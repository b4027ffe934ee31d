"""What holds the program of a tile: the rights that it has, and the layers that keep it from all others.

The launcher, `c/launch.c`, applies them before the program's first instruction. They are those of engines'
processes (`aisrv/inference/process/sandbox.py`), but that a program may have files and the network, and stays
this user's. Source: "The sandbox of inference workers".
"""

import logging
import os
import struct
from collections.abc import Iterator
from enum import IntFlag
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from aisrv.addons.firmware.system_calls import filter_of_calls
from aisrv.inference.process.sandbox import DESCRIPTORS, WRITTEN_BYTES, file_rights, landlock_attributes
from aisrv.inference.process.sandbox_layers import landlock_version, sandbox_layers
from aisrv.values.regular_file import ANY_SIZE, opened_regular

logger = logging.getLogger(__name__)

MEMORY_BYTES: Final = 1 << 30
"""Address space of a program, besides the stacks of its cores."""
STACKS: Final = 32
"""Of its cores, and of the callbacks that interrupt them."""
_STACK_EXTRA: Final = 8192

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE: Final = 1 << 14
_CONTROL_DEVICE: Final = 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _CONTROL_DEVICE
_READING: Final = _READ_FILE | _READ_DIR
_WRITING: Final = _READING | _WRITE_FILE | _TRUNCATE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13
"""To read, write, list, remove, make folders and files, and move them."""
_LIBRARIES: Final = (
    *("/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"),
    *("/usr/local/lib", "/nix/store", "/gnu/store"),
)
_SYSTEM: Final = (
    *("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/share/locale"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"),
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NAMES: Final = (
    *("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols"),
    *("/etc/gai.conf", "/etc/host.conf"),
)
_HEAD: Final = struct.Struct("<II3QIIII")
_LIMIT: Final = struct.Struct("<QQ")
_RULE: Final = struct.Struct("<QI")
_ELF_32: Final = b"\x7fELF\x01"
_NO_NEW_PRIVILEGES, _LANDLOCK, _SIGNALS = 1, 2, 4


class Rights(Struct, frozen=True):
    """What a program of a tile may reach beside the chip."""

    reads: tuple[Path, ...] = ()
    """Folders below which it reads."""
    writes: tuple[Path, ...] = ()
    """Folders below which it reads, writes, makes and removes."""
    network: bool = False
    """Whether it has the network."""
    has_sanitizer: bool = False
    """Whether AddressSanitizer watches it, which takes terabytes of addresses: memory has no bound then."""


class ProgramLayers(IntFlag):
    """What keeps a program in."""

    NO_NEW_PRIVILEGES = 1
    LIMITS = 2
    PROCESSES = 4
    MEMORY = 8
    LANDLOCK = 16
    SIGNALS = 32
    SECCOMP = 64


WITHOUT_LEAKS: Final = "detect_leaks=0"
"""Option of AddressSanitizer: it looks for leaks by a process that traces the program."""

ALL: Final = ~ProgramLayers(0)
IN_A_DEBUGGER: Final = ProgramLayers.NO_NEW_PRIVILEGES | ProgramLayers.LANDLOCK
"""Layers in a debugger, which starts processes, traces them and reads all files."""


class Confinement(Struct, frozen=True):
    """All layers of one program."""

    layers: ProgramLayers
    """Those that are wanted; what this machine lacks is left out."""
    program: Path
    rights: Rights = Rights()
    stack_bytes: int = 0
    """Stack of each core."""

    def __bytes__(self) -> bytes:
        """Pack it for the launcher, whose parent this process is."""
        version = landlock_version() if ProgramLayers.LANDLOCK in self.layers else 0
        flags = _NO_NEW_PRIVILEGES * (ProgramLayers.NO_NEW_PRIVILEGES in self.layers)
        flags |= _LANDLOCK * bool(version)
        program = filter_of_calls(bits=_bits_of(self.program), network=self.rights.network)
        flags |= _SIGNALS * (bool(program) and ProgramLayers.SIGNALS in self.layers)
        calls = program if ProgramLayers.SECCOMP in self.layers else b""
        attributes = landlock_attributes(version, network=self.rights.network) if version else b""
        limits = [_LIMIT.pack(kind, value) for kind, value in self._limits()]
        wanted = self._rules() if version else ()
        rules = [_rule(path, rights & file_rights(version)) for path, rights in wanted]
        head = _HEAD.pack(
            flags,
            os.getpid(),
            *struct.unpack("<3Q", attributes.ljust(24, b"\0")),
            len(attributes),
            len(limits),
            len(rules),
            len(calls),
        )
        return b"".join((head, *limits, *rules, calls))

    def _limits(self) -> Iterator[tuple[int, int]]:
        import resource  # not on Windows, where no program of a tile runs

        if ProgramLayers.LIMITS in self.layers:
            yield resource.RLIMIT_NOFILE, DESCRIPTORS
            yield resource.RLIMIT_MEMLOCK, 0
            yield resource.RLIMIT_MSGQUEUE, 0
            yield resource.RLIMIT_CORE, 0
            yield resource.RLIMIT_FSIZE, WRITTEN_BYTES
        if ProgramLayers.PROCESSES in self.layers:
            yield resource.RLIMIT_NPROC, 0
        if ProgramLayers.MEMORY in self.layers and not self.rights.has_sanitizer:
            yield resource.RLIMIT_AS, MEMORY_BYTES + STACKS * (self.stack_bytes + _STACK_EXTRA)

    def _rules(self) -> Iterator[tuple[Path, int]]:
        system = {**dict.fromkeys(_LIBRARIES, _READING | _EXECUTE), **dict.fromkeys(_SYSTEM, _READING)}
        system |= dict.fromkeys(_DEVICES, _READING | _WRITE_FILE)
        if self.rights.network:
            system |= dict.fromkeys(_NAMES, _READING)
        if self.layers == IN_A_DEBUGGER:
            system |= {"/": _READING | _EXECUTE, "/dev": _OF_FILES}
            if os.geteuid():  # root could change the kernel there; gdb warns, and has another way
                system["/proc"] = _READING | _EXECUTE | _WRITE_FILE  # the memory of its own processes
        yield from ((Path(name), rights) for name, rights in system.items() if Path(name).exists())
        yield self.program, _READ_FILE | _EXECUTE
        yield from ((folder, _READING) for folder in self.rights.reads)
        yield from ((folder, _WRITING) for folder in self.rights.writes)


def _rule(path: Path, rights: int) -> bytes:
    """Pack a rule of Landlock; a file has no rights of folders."""
    if not path.is_dir():
        rights &= _OF_FILES
    name = os.fsencode(path) + b"\0"
    return _RULE.pack(rights, len(name)) + name


def _bits_of(program: Path) -> int:
    """Return the size of a program's addresses, as its header says; 64 for what is no program."""
    try:
        with opened_regular(program, ANY_SIZE) as file:
            return 32 if file.read(len(_ELF_32)) == _ELF_32 else 64
    except OSError:
        return 64  # the launcher says what is wrong with it


def missing_layers() -> str:
    """Describe the layers that this machine lacks, with the reason; empty where it has all."""
    needed = ("Landlock", "seccomp")
    return ", ".join(str(layer) for layer in sandbox_layers() if layer.name in needed and not layer.holds)


@cache
def warn_of_missing_layers() -> None:
    """Say once which layers this machine lacks."""
    if missing := missing_layers():
        logger.warning("the sandbox of tasks in C is weaker than it could be: %s", missing)
