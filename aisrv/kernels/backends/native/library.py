"""The compiled library: where it is, what this processor can run of it, and steps that run in one call.

It is an optional part of the installation: `load` says why there is none, or what the processor lacks.
"""

import ctypes
import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.kernels import checks
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.native.structures import StepStructure
from aisrv.kernels.errors import KernelError

FOLDER: Final = Path(__file__).parent
PATTERN: Final = "_kernels*.so"

_AVX2_BIT: Final = 1
_VNNI_BIT: Final = 2


class NativeError(KernelError):
    """The library is not there, or has no code for this processor; the message says what to do."""


class Variant(enum.Enum):
    """The instructions that kernels are made of, the fastest last."""

    AVX2 = "avx2"
    AVX512_VNNI = "avx512vnni"


class Kind(enum.IntEnum):
    """The kinds of step, in the order of the library's table."""

    COPY = 0
    PAIRS = 1
    SOFTMAX = 2
    CONVOLUTION_512 = 3
    DEPTHWISE_512 = 4
    DEPTHWISE_3X3_512 = 5
    ADDITION_512 = 6
    AVERAGE_POOL_512 = 7
    MAX_POOL_512 = 8
    CONVOLUTION_256 = 9
    DEPTHWISE_256 = 10
    ADDITION_256 = 11
    AVERAGE_POOL_256 = 12
    MAX_POOL_256 = 13


class Library(NamedTuple):
    """The loaded library."""

    functions: ctypes.CDLL
    variants: tuple[Variant, ...]
    """What this processor can run, the fastest last."""


@functools.cache
def load() -> Library:
    """Load the library; NativeError where it is not there or cannot serve."""
    found = sorted(FOLDER.glob(PATTERN))
    if not found:
        raise NativeError(
            "the library of native kernels is not installed: there was no C compiler when aisrv was installed, "
            "or no wheel for this platform"
        )
    try:
        functions = ctypes.CDLL(str(found[0]))
        bits = functions.aisrv_variants()
    except (OSError, AttributeError) as error:
        raise NativeError(f"the library of native kernels does not load: {error}") from error
    variants = tuple(
        variant
        for variant, bit in ((Variant.AVX2, _AVX2_BIT), (Variant.AVX512_VNNI, _VNNI_BIT))
        if bits & bit
    )
    if not variants:
        raise NativeError("the native kernels need an x86-64 processor with AVX2 and FMA")
    functions.aisrv_run.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    functions.aisrv_run.restype = None
    functions.aisrv_team_start.argtypes = (ctypes.c_int64,)
    functions.aisrv_team_start.restype = ctypes.c_void_p
    functions.aisrv_team_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    functions.aisrv_team_run.restype = None
    functions.aisrv_team_end.argtypes = (ctypes.c_void_p,)
    functions.aisrv_team_end.restype = None
    return Library(functions, variants)


class Team:
    """The threads that run steps: the calling one, and others that wait for work until the team is dropped."""

    def __init__(self, library: Library, threads: int = 1) -> None:
        """Start all threads but the calling one; NativeError where the system has not so many."""
        self._functions: Final = library.functions
        self._team: int | None = None
        if threads > 1:
            self._team = self._functions.aisrv_team_start(threads)
            if self._team is None:
                raise NativeError(f"the system does not start {threads} threads")

    def run(self, steps: "ctypes.Array[StepStructure]") -> Kernel:
        """Return what runs these steps in order."""
        count, address = len(steps), ctypes.addressof(steps)
        if self._team is None:
            return functools.partial(self._functions.aisrv_run, address, count)
        return functools.partial(self._functions.aisrv_team_run, self._team, address, count)

    def __del__(self) -> None:
        """End the threads."""
        if getattr(self, "_team", None) is not None:
            self._functions.aisrv_team_end(self._team)


@dataclass(frozen=True, slots=True)
class Step:
    """One step with its arguments, and what these point to."""

    kind: Kind
    arguments: ctypes.Structure
    kept: tuple[object, ...]


class NativeKernel:
    """Steps that run in one call."""

    __slots__ = ("_array", "_call", "_steps", "_team")

    def __init__(self, team: Team, steps: Sequence[Step]) -> None:
        """Join steps."""
        self._team = team
        self._steps = tuple(steps)
        self._array = (StepStructure * len(steps))(
            *(StepStructure(step.kind, ctypes.addressof(step.arguments)) for step in steps)
        )
        self._call = team.run(self._array)

    def __call__(self) -> None:
        """Run the steps in order."""
        self._call()

    def followed_by(self, kernel: Kernel) -> "NativeKernel | None":
        """Return both kernels as one; None for a kernel that is not of this library and team."""
        if isinstance(kernel, NativeKernel) and kernel._team is self._team:
            return NativeKernel(self._team, (*self._steps, *kernel._steps))
        return None


def address(data: "memoryview | npt.NDArray[np.generic]") -> int:
    """Where a buffer or an array starts in memory."""
    if isinstance(data, memoryview):
        return checks.address(data)
    return int(data.__array_interface__["data"][0])
