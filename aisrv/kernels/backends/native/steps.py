"""Steps of the library: their kinds, their arguments, and kernels that run several in one call."""

import ctypes
import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

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
    PADDING = 14
    LSTM = 15
    SVDF = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One step with its arguments, and what these point to."""

    kind: Kind
    arguments: ctypes.Structure
    kept: tuple[object, ...]
    work: int = 0
    """Multiply-accumulates, or what takes as long."""


class NativeKernel(functools.partial[None]):
    """Steps that run in one call.

    It is the prepared call of the library itself: a network of microseconds notices each layer around it.
    """

    team: Team
    steps: tuple[Step, ...]

    def __new__(cls, team: Team, steps: Sequence[Step]) -> Self:
        """Join steps."""
        array = (StepStructure * len(steps))(
            *(
                StepStructure(step.kind, ctypes.addressof(step.arguments), team.pieces(step.work))
                for step in steps
            )
        )
        # Values of ctypes need no conversion at each call.
        kernel = super().__new__(cls, *team.call, ctypes.byref(array), ctypes.c_int64(len(steps)))
        kernel.team, kernel.steps = team, tuple(steps)
        return kernel

    def followed_by(self, kernel: Kernel) -> "NativeKernel | None":
        """Return both kernels as one; None for a kernel that is not of this library and team."""
        if isinstance(kernel, NativeKernel) and kernel.team is self.team:
            return NativeKernel(self.team, (*self.steps, *kernel.steps))
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
