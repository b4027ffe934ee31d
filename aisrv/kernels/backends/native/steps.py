"""Steps of the library: their kinds, their arguments, and kernels that run several in one call."""

import ctypes
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import checks
from aisrv.kernels.backend import Kernel
from aisrv.kernels.backends.native.library import Team
from aisrv.kernels.backends.native.structures import StepStructure

CACHE_LINE: Final = 64
"""Bytes: loads of a whole register that cross a line take twice as long."""


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
        self._call = team.runner(ctypes.addressof(self._array), len(steps))

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


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to memory that starts at a cache line."""
    memory = np.empty(array.nbytes + CACHE_LINE, np.int8)
    start = -address(memory) % CACHE_LINE
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
