"""The compiled library: where it is, and what this processor can run of it.

It is an optional part of the installation: `load` says why there is none, or what the processor lacks.
"""

import ctypes
import enum
import functools
import os
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from aisrv.addons.kernels.errors import KernelError

FOLDER: Final = Path(__file__).parent
SUFFIXES: Final = (".so", ".dylib", ".dll")
"""Of the library: on Linux, and where setuptools compiles it; in wheels for macOS; in those for Windows."""
HEADER: Final = "kernels.h"
COMPILED: Final = "kernels.c"
"""The source that is compiled; it includes the others."""
SOURCES: Final = tuple(sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.[ch]")))
"""Sources of the library; its CRC-32 is that of all, one after the other."""
VARIABLE: Final = "AISRV_NATIVE_VARIANT"
"""Holds this process to one variant."""

_BUILD: Final = "install aisrv again to compile it, in a checkout with `pip install -e .`"


class NativeError(KernelError):
    """The library is not there, or has no code for this processor; the message says what to do."""


class Variant(enum.Enum):
    """The instructions that kernels are made of, the fastest last."""

    PLAIN = "plain"
    AVX2 = "avx2"
    AVX_VNNI = "avxvnni"
    AVX512_VNNI = "avx512vnni"
    NEON = "neon"
    NEON_DOT = "neondot"


_BITS: Final = {
    Variant.AVX2: 1,
    Variant.AVX512_VNNI: 2,
    Variant.AVX_VNNI: 4,
    Variant.NEON: 8,
    Variant.NEON_DOT: 16,
}
"""What the library says of the processor; plain C runs on all."""


class Library(NamedTuple):
    """The loaded library."""

    functions: ctypes.CDLL
    variants: tuple[Variant, ...]
    """Variants that this processor can run, the fastest last."""


def read_source(name: str) -> bytes:
    """Read one of SOURCES."""
    return (FOLDER / name).read_bytes()


def source_crc() -> int:
    """The CRC-32 of the sources as they are now."""
    return crc32(b"".join(map(read_source, SOURCES)))


def compiled_files(folder: Path) -> list[Path]:
    """The library of a folder, or none."""
    return sorted(path for path in folder.glob("_kernels*") if path.suffix in SUFFIXES)


@functools.cache
def load() -> Library:
    """Load the library; NativeError where it is not there or cannot serve."""
    found = compiled_files(FOLDER)
    if not found:
        raise NativeError(
            "the library of native kernels is not installed: there was no C compiler when aisrv was "
            "installed, or no wheel for this platform"
        )
    try:
        functions = ctypes.CDLL(str(found[0]))
        bits = functions.aisrv_variants()
        functions.aisrv_source_crc.restype = ctypes.c_uint32
        compiled = functions.aisrv_source_crc()
    except (OSError, AttributeError) as error:
        raise NativeError(f"the library of native kernels does not load: {error}; {_BUILD}") from error
    if compiled != source_crc():
        raise NativeError(f"the library of native kernels was compiled from another source; {_BUILD}")
    variants = held(
        tuple(each for each in Variant if each is Variant.PLAIN or bits & _BITS[each]),
        os.environ.get(VARIABLE),
    )
    # No types of arguments: converting them would take longer than some networks. Callers pass C's values.
    functions.aisrv_run.restype = None
    functions.aisrv_team_run.restype = None
    functions.aisrv_team_join.argtypes = (ctypes.c_int64,)
    functions.aisrv_team_leave.restype = None
    functions.aisrv_team_forked.restype = None
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functions.aisrv_team_forked)
    return Library(functions, variants)


def held(variants: tuple[Variant, ...], name: str | None) -> tuple[Variant, ...]:
    """The one of a processor's variants that VARIABLE names, all if it names none; else NativeError."""
    if not name:
        return variants
    if name not in [each.value for each in Variant]:
        names = ", ".join(each.value for each in Variant)
        raise NativeError(f"{VARIABLE}={name}: there is no such variant; there are: {names}")
    found = tuple(each for each in variants if each.value == name)
    if not found:
        raise NativeError(f"this processor has no {name}")
    return found
